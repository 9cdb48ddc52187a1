#include "config/option_read.h"

#include "config/digest.h"
#include "config/file.h"
#include "config/trust.h"
#include "config/value.h"
#include "srt/grow.h"

enum { SECRET_FILE_MAX = 64 << 10 };

/* ---- lists of rules ---- */

static unsigned line_of(struct str text, size_t offset)
{
    unsigned line = 1;
    for (size_t i = 0; i < offset; i++)
        line += text.p[i] == '\n';
    return line;
}

/* What stands in the way of reading a list file line by line. */
static bool list_is_text(struct option_input *input, const char *path, struct str bytes)
{
    struct place place = {.file = path, .line = 1};
    size_t end = file_text_end(bytes);
    if (bytes.len == 0) {
        /* Whoever writes it in place truncates it first: no rules for a moment, and for deny rules
         * that would be a hole. */
        faults_add(input->faults, FAULT_ERROR, place, "is empty");
        return false;
    }
    if (file_has_bom(bytes)) {
        faults_add(input->faults, FAULT_ERROR, place,
                   "starts with a byte order mark; save it as UTF-8 without one");
        return false;
    }
    if (end == bytes.len)
        return true;
    place.line = line_of(bytes, end);
    faults_add(input->faults, FAULT_ERROR, place, "byte 0x%02x is not text",
               (unsigned)(unsigned char)bytes.p[end]);
    return false;
}

static void add_list_line(struct config_list *list, struct str line, struct place place,
                          struct option_input *input)
{
    if (line.len > 0 && line.p[line.len - 1] == '\r')
        line.len--;
    struct str text = str_trim(line);
    if (text.len == 0 || text.p[0] == '#')
        return;
    if (line.len > INI_LINE_MAX)
        faults_add(input->faults, FAULT_ERROR, place,
                   "a line has at most %d bytes, this one has %zu", INI_LINE_MAX, line.len);
    else
        option_list_add(list, str_trim(ini_cut_comment(text, '#')), place);
}

/* Views into the file's bytes: a list of a million rules costs its text and one place a rule. */
static void read_rule_file(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    const char *path;
    if (!option_is_unquoted(input))
        return;
    struct str rest = ini_read_side_file(input->doc, input->place, input->text, INI_FILE_BYTES_MAX,
                                         &path, input->faults);
    if (rest.p == NULL || !list_is_text(input, path, rest))
        return;

    struct config_list *list = field;
    size_t lines = line_of(rest, rest.len);
    list->items = grow_by(list->items, list->count, lines, sizeof(*list->items));
    struct place place = {.file = path};
    while (rest.len > 0) {
        const struct str line = str_take_line(&rest);
        place.line++;
        add_list_line(list, line, place, input);
    }
}

const struct option_kind kind_rule_file = {read_rule_file, NULL};

/* ---- secrets ---- */

static void read_token_sha256(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    struct config_client *client = field;
    client->has_token = true;
    /* The value is not repeated: it may be the secret itself, put here by mistake. */
    if (!value_hex(str_of(input->text), client->token_sha256, sizeof(client->token_sha256)))
        fault(input, "%s must be 64 hexadecimal digits", input->key);
}

static void print_token(const struct option *option, const void *field, FILE *out)
{
    const struct config_client *client = field;
    if (client->has_token)
        fprintf(out, "%s = (hidden)\n", option->key);
}

const struct option_kind kind_token_sha256 = {read_token_sha256, print_token};

/* The secret in a file, p == NULL and a fault when there is none. It may have line ends in it: by
 * Basic and SOCKS they can be sent. */
static struct str read_secret(struct option_input *input, const char **path)
{
    struct str secret = ini_read_side_file(input->doc, input->place, input->text, SECRET_FILE_MAX,
                                           path, input->faults);
    if (secret.p == NULL)
        return STR_NULL;
    secret = file_secret(secret);
    if (secret.len > 0)
        return secret;
    fault(input, "%s: %s is empty", input->key, *path);
    return STR_NULL;
}

static void read_token_file(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    struct config_client *client = field;
    const char *path;
    client->has_token = true;
    struct str secret = read_secret(input, &path);
    if (secret.p == NULL)
        return;
    digest_make(client->token_sha256, secret);
}

const struct option_kind kind_token_file = {read_token_file, NULL};

static void read_secret_file(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    if (option_is_unquoted(input))
        read_secret(input, field);
}

const struct option_kind kind_secret_file = {read_secret_file, option_print_text};

static void read_credentials_file(const struct option *option, void *field,
                                  struct option_input *input)
{
    (void)option;
    const char *path, *why;
    if (!option_is_unquoted(input))
        return;
    struct str secret = read_secret(input, &path);
    if (secret.p != NULL && !upstream_set_credentials(field, secret, &why))
        fault(input, "%s: %s: %s", input->key, path, why);
}

static void print_credentials_file(const struct option *option, const void *field, FILE *out)
{
    const struct config_upstream *upstream = field;
    if (upstream->has_credentials)
        fprintf(out, "%s = (hidden)\n", option->key);
}

const struct option_kind kind_credentials_file = {read_credentials_file, print_credentials_file};

static void read_ca_file(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    struct srt_err err;
    struct config_upstream *upstream = field;
    if (!option_is_unquoted(input))
        return;
    struct str pem = ini_read_side_file(input->doc, input->place, input->text, TRUST_FILE_MAX,
                                        &upstream->ca_file, input->faults);
    if (pem.p == NULL)
        return;
    trust_leave(upstream->trust);
    upstream->trust = pem.len > 0 ? trust_load(pem, &err) : NULL;
    if (pem.len == 0)
        fault(input, "%s: %s is empty", input->key, upstream->ca_file);
    else if (upstream->trust == NULL)
        fault(input, "%s: %s: %s", input->key, upstream->ca_file, err.text);
}

static void print_ca_file(const struct option *option, const void *field, FILE *out)
{
    const struct config_upstream *upstream = field;
    if (upstream->ca_file != NULL)
        fprintf(out, "%s = %s\n", option->key, upstream->ca_file);
}

const struct option_kind kind_ca_file = {read_ca_file, print_ca_file};
