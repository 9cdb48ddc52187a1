#include "config/option.h"

#include "config/option_read.h"
#include "config/value.h"
#include "srt/grow.h"

#include <grp.h>
#include <inttypes.h>

void option_reject(const struct option_input *input, struct str value, const char *wanted)
{
    fault(input, "%s: `%.*s` is not %s", input->key, STR_ARG(value), wanted);
}

bool option_next_word(struct str *rest, struct str *word)
{
    return str_next_word(rest, STR(", \t"), word);
}

void option_list_add(struct config_list *list, struct str text, struct place place)
{
    list->items = grow_one(list->items, list->count, sizeof(*list->items));
    list->items[list->count++] = (struct config_text){.text = text, .place = place};
}

void option_read_words(const struct option *option, struct config_list *list,
                       struct option_input *input, option_accept *accept)
{
    struct str rest = str_of(input->text), word;
    bool any = false;
    while (option_next_word(&rest, &word)) {
        const char *kept = ini_keep(input->doc, word);
        any = true;
        if (accept(option, input, kept))
            option_list_add(list, (struct str){kept, word.len}, input->place);
    }
    if (!any)
        fault(input, "%s names nothing", input->key);
}

void option_print_lines(const struct option *option, const void *field, FILE *out)
{
    const struct config_list *list = field;
    for (size_t i = 0; i < list->count; i++)
        fprintf(out, "%s = %.*s\n", option->key, STR_ARG(list->items[i].text));
}

static void print_words(const struct option *option, const void *field, FILE *out)
{
    const struct config_list *list = field;
    if (list->count == 0)
        return;
    fprintf(out, "%s =", option->key);
    for (size_t i = 0; i < list->count; i++)
        fprintf(out, "%s %.*s", i > 0 ? "," : "", STR_ARG(list->items[i].text));
    fputc('\n', out);
}

void option_print_text(const struct option *option, const void *field, FILE *out)
{
    const char *const *text = field;
    if (*text != NULL)
        fprintf(out, "%s = %s\n", option->key, *text);
}

static void print_number(const struct option *option, const void *field, FILE *out)
{
    uint64_t number = *(const uint64_t *)field;
    if (number >= option->min) /* less: it was not set */
        fprintf(out, "%s = %" PRIu64 "\n", option->key, number);
}

static void read_count(const struct option *option, void *field, struct option_input *input)
{
    uint64_t *count = field, max = option->max != 0 ? option->max : UINT64_MAX;
    if (!str_uint(str_of(input->text), max, count) || *count < option->min)
        option_reject(input, str_of(input->text), option->type);
}

const struct option_kind kind_count = {read_count, print_number};

static void read_workers(const struct option *option, void *field, struct option_input *input)
{
    uint64_t count = 0;
    bool automatic = strcmp(input->text, "auto") == 0;
    if (!automatic && (!str_uint(str_of(input->text), option->max, &count) || count == 0))
        option_reject(input, str_of(input->text), option->type);
    *(uint32_t *)field = (uint32_t)count;
}

static void print_workers(const struct option *option, const void *field, FILE *out)
{
    uint32_t count = *(const uint32_t *)field;
    if (count == 0)
        fprintf(out, "%s = auto\n", option->key);
    else
        fprintf(out, "%s = %" PRIu32 "\n", option->key, count);
}

const struct option_kind kind_workers = {read_workers, print_workers};

static void read_uid(const struct option *option, void *field, struct option_input *input)
{
    struct config_client *client = field;
    uint64_t uid = 0;
    /* The highest value is (uid_t)-1, which means "no user" to the kernel. */
    client->has_uid = str_uint(str_of(input->text), UINT32_MAX - 1, &uid);
    client->uid = (uint32_t)uid;
    if (!client->has_uid)
        option_reject(input, str_of(input->text), option->type);
}

static void print_uid(const struct option *option, const void *field, FILE *out)
{
    const struct config_client *client = field;
    if (client->has_uid)
        fprintf(out, "%s = %" PRIu32 "\n", option->key, client->uid);
}

const struct option_kind kind_uid = {read_uid, print_uid};

static const char duration_wanted[] = "a duration: 0, or a number with ms, s, m, h or d";

/* A year and some: what is longer was meant as "for ever", and sums of times must not overflow. */
static const uint64_t duration_max_ms = UINT64_C(400) * 24 * 3600 * 1000;

static bool duration_in_bounds(const struct option *option, struct option_input *input, uint64_t ms)
{
    if (ms < option->min)
        fault(input, "%s must be more than 0", input->key);
    else if (option->max != 0 && ms > option->max)
        fault(input, "%s: `%s` is more than %" PRIu64 "s", input->key, input->text,
              option->max / 1000);
    else if (ms > duration_max_ms)
        fault(input, "%s: `%s` is more than 400 days", input->key, input->text);
    else
        return true;
    return false;
}

static void read_duration_ms(const struct option *option, void *field, struct option_input *input)
{
    uint64_t *ms = field;
    if (!value_duration_ms(str_of(input->text), ms))
        option_reject(input, str_of(input->text), duration_wanted);
    else
        duration_in_bounds(option, input, *ms);
}

static void print_duration_ms(const struct option *option, const void *field, FILE *out)
{
    uint64_t ms = *(const uint64_t *)field;
    if (ms % 1000 == 0)
        fprintf(out, "%s = %" PRIu64 "s\n", option->key, ms / 1000);
    else
        fprintf(out, "%s = %" PRIu64 "ms\n", option->key, ms);
}

const struct option_kind kind_duration_ms = {read_duration_ms, print_duration_ms};

static void read_duration_s(const struct option *option, void *field, struct option_input *input)
{
    uint64_t ms, *seconds = field;
    if (!value_duration_ms(str_of(input->text), &ms))
        option_reject(input, str_of(input->text), duration_wanted);
    else if (ms % 1000 != 0)
        fault(input, "%s: `%s` is not a whole number of seconds", input->key, input->text);
    else if (duration_in_bounds(option, input, ms))
        *seconds = ms / 1000;
}

static void print_duration_s(const struct option *option, const void *field, FILE *out)
{
    fprintf(out, "%s = %" PRIu64 "s\n", option->key, *(const uint64_t *)field);
}

const struct option_kind kind_duration_s = {read_duration_s, print_duration_s};

static void read_size(const struct option *option, void *field, struct option_input *input)
{
    uint64_t *size = field;
    if (!value_size(str_of(input->text), size))
        option_reject(input, str_of(input->text), "a size: bytes, or a number with k, m or g");
    else if (*size < option->min || *size > option->max)
        fault(input, "%s: `%s` is not between %" PRIu64 " and %" PRIu64 " bytes", input->key,
              input->text, option->min, option->max);
}

const struct option_kind kind_size = {read_size, print_number};

static void read_any_rate(void *field, struct option_input *input, bool sizes, const char *wanted)
{
    struct config_rate *rate = field;
    if (!value_rate(str_of(input->text), sizes, &rate->count, &rate->per_ms) || rate->count == 0)
        option_reject(input, str_of(input->text), wanted);
}

static void read_rate(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    read_any_rate(field, input, false, "a rate above 0: a number and /s, /m, /h or /d");
}

static void read_byte_rate(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    read_any_rate(field, input, true, "a rate above 0: a size and /s, /m, /h or /d");
}

static void print_rate(const struct option *option, const void *field, FILE *out)
{
    const struct config_rate *rate = field;
    if (rate->count == 0)
        return;
    const char *unit = rate->per_ms == 1000          ? "s"
                       : rate->per_ms == 60 * 1000   ? "m"
                       : rate->per_ms == 3600 * 1000 ? "h"
                                                     : "d";
    fprintf(out, "%s = %" PRIu64 "/%s\n", option->key, rate->count, unit);
}

const struct option_kind kind_rate = {read_rate, print_rate};
const struct option_kind kind_byte_rate = {read_byte_rate, print_rate};

static void read_bool(const struct option *option, void *field, struct option_input *input)
{
    if (!value_bool(str_of(input->text), field))
        option_reject(input, str_of(input->text), option->type);
}

static void print_bool(const struct option *option, const void *field, FILE *out)
{
    fprintf(out, "%s = %s\n", option->key, *(const bool *)field ? "yes" : "no");
}

const struct option_kind kind_bool = {read_bool, print_bool};

/* The words of a type are separated by " | ". */
static struct str word_at(const char *type, unsigned index)
{
    struct str rest = str_of(type), word;
    while (str_next_part(&rest, '|', &word))
        if (index-- == 0)
            return str_trim(word);
    return STR_NULL;
}

static bool find_word(const struct option *option, struct option_input *input, unsigned *index)
{
    for (*index = 0; word_at(option->type, *index).p != NULL; ++*index)
        if (str_eq(word_at(option->type, *index), str_of(input->text)))
            return true;
    option_reject(input, str_of(input->text), option->type);
    return false;
}

static void read_word(const struct option *option, void *field, struct option_input *input)
{
    unsigned index;
    if (find_word(option, input, &index))
        *(unsigned *)field = index;
}

static void print_word(const struct option *option, const void *field, FILE *out)
{
    fprintf(out, "%s = %.*s\n", option->key,
            STR_ARG(word_at(option->type, *(const unsigned *)field)));
}

const struct option_kind kind_word = {read_word, print_word};

static void read_word_bool(const struct option *option, void *field, struct option_input *input)
{
    unsigned index;
    if (find_word(option, input, &index))
        *(bool *)field = index == 1;
}

static void print_word_bool(const struct option *option, const void *field, FILE *out)
{
    fprintf(out, "%s = %.*s\n", option->key, STR_ARG(word_at(option->type, *(const bool *)field)));
}

const struct option_kind kind_word_bool = {read_word_bool, print_word_bool};

bool option_is_unquoted(struct option_input *input)
{
    if (strchr(input->text, '"') == NULL)
        return true;
    fault(input, "%s: quotes are not removed here; leave them out", input->key);
    return false;
}

static void read_text(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    if (option_is_unquoted(input))
        *(const char **)field = input->text;
}

const struct option_kind kind_text = {read_text, option_print_text};

/* A path; the words of the type behind "PATH | " stand for themselves. */
static void read_path(const struct option *option, void *field, struct option_input *input)
{
    const char **path = field;
    if (!option_is_unquoted(input))
        return;
    for (unsigned i = 1; word_at(option->type, i).p != NULL; i++) {
        if (str_eq(word_at(option->type, i), str_of(input->text))) {
            *path = input->text;
            return;
        }
    }
    *path = ini_resolve(input->doc, input->place.file, input->text);
}

static void read_log(const struct option *option, void *field, struct option_input *input)
{
    if (strncmp(input->text, "unix:", 5) != 0)
        read_path(option, field, input);
    else if (input->text[5] != '/')
        fault(input, "%s: unix: needs an absolute path", input->key);
    else
        read_text(option, field, input);
}

const struct option_kind kind_log = {read_log, option_print_text};

static void read_path_or_none(const struct option *option, void *field, struct option_input *input)
{
    read_path(option, field, input);
    const char **path = field;
    if (*path != NULL && strcmp(*path, "none") == 0)
        *path = NULL;
}

static void print_path_or_none(const struct option *option, const void *field, FILE *out)
{
    const char *const *path = field;
    fprintf(out, "%s = %s\n", option->key, *path != NULL ? *path : "none");
}

const struct option_kind kind_path_or_none = {read_path_or_none, print_path_or_none};

static bool refer(const struct option *option, struct option_input *input, const char *name)
{
    struct references *references = input->references;
    references->items = grow_one(references->items, references->count, sizeof(*references->items));
    references->items[references->count++] = (struct reference){
        .section = option->names, .name = name, .key = input->key, .place = input->place};
    return true;
}

static void read_name(const struct option *option, void *field, struct option_input *input)
{
    *(const char **)field = input->text;
    refer(option, input, input->text);
}

const struct option_kind kind_name = {read_name, option_print_text};

static void read_names(const struct option *option, void *field, struct option_input *input)
{
    option_read_words(option, field, input, refer);
}

const struct option_kind kind_names = {read_names, print_words};

static void read_rule(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    option_list_add(field, str_of(input->text), input->place);
}

const struct option_kind kind_rules = {read_rule, option_print_lines};

static void read_mode(const struct option *option, void *field, struct option_input *input)
{
    uint32_t mode = 0;
    size_t len = strlen(input->text);
    bool octal = len >= 3 && len <= 4;
    for (size_t i = 0; octal && i < len; i++) {
        octal = input->text[i] >= '0' && input->text[i] <= '7';
        mode = mode << 3 | (uint32_t)(input->text[i] - '0');
    }
    if (!octal || mode > 0777)
        option_reject(input, str_of(input->text), option->type);
    else
        ((struct config_listen *)field)->mode = mode;
}

static void print_mode(const struct option *option, const void *field, FILE *out)
{
    const struct config_listen *listen = field;
    if (listen->address.path != NULL)
        fprintf(out, "%s = %04o\n", option->key, listen->mode);
}

const struct option_kind kind_mode = {read_mode, print_mode};

static void read_group(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    uint64_t gid;
    if (!str_uint(str_of(input->text), UINT32_MAX - 1, &gid) && getgrnam(input->text) == NULL)
        fault(input, "%s: there is no group `%s` on this machine", input->key, input->text);
    *(const char **)field = input->text;
}

const struct option_kind kind_group = {read_group, option_print_text};

static void read_module(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    const char *text = input->text;
    static const char word_bytes[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    bool is_word = strspn(text, word_bytes) == strlen(text);
    bool is_socket = strncmp(text, "unix:/", 6) == 0;
    if (is_word || is_socket || text[0] == '/')
        *(const char **)field = text;
    else
        option_reject(input, str_of(text), "a built-in module, /PATH.so or unix:/PATH");
}

const struct option_kind kind_module = {read_module, option_print_text};

static void read_include(const struct option *option, void *field, struct option_input *input)
{
    (void)option, (void)field, (void)input;
}

const struct option_kind kind_include = {read_include, NULL};
