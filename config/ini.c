#include "config/ini.h"

#include "config/digest.h"
#include "config/file.h"
#include "srt/cleanup.h"
#include "srt/grow.h"
#include "srt/must.h"

#include <assert.h>
#include <errno.h>
#include <glob.h>
#include <ini.h>
#include <sys/stat.h>

/*
 * inih (55) splits lines into keys and values and knows which lines continue a value. It is told
 * nothing else, since what it does not like it cuts or skips: lines at ini_max_line, section names
 * and continued keys at 49 bytes, values at ` ;` even inside quotes. So every line goes through
 * next_line() first, which hands on only lines that inih reads whole, without their comment; a line
 * at fault is replaced by an empty one and what would depend on it is dropped.
 */

struct ini_strings {
    char **items; /* each its own allocation: kept strings and whole side files */
    size_t count;
};

/* The file that is being read and those that include it. */
struct source {
    const char *file;
    dev_t device;
    ino_t inode;
    const struct source *includer;
    unsigned depth;
};

struct parse {
    struct ini_doc *doc;
    struct faults *faults;
    const struct source *source; /* NULL while text in memory is read */
    const char *file;
    struct str rest;
    unsigned line;
    const char *section, *name; /* NULL: no section yet, or its header is at fault */
    const char *key;            /* that an indented line continues; NULL: none */
    bool header_seen;
    bool indented; /* the line that inih is looking at */
};

static struct place place_of(const struct parse *parse)
{
    return (struct place){.file = parse->file, .line = parse->line};
}

#define fault(parse, ...) faults_add((parse)->faults, FAULT_ERROR, place_of(parse), __VA_ARGS__)

static char *keep_allocated(struct ini_doc *doc, char *string)
{
    if (doc->strings == NULL)
        doc->strings = must(calloc(1, sizeof(*doc->strings)));
    struct ini_strings *strings = doc->strings;
    strings->items = grow_one(strings->items, strings->count, sizeof(*strings->items));
    return strings->items[strings->count++] = string;
}

const char *ini_keep(struct ini_doc *doc, struct str text)
{
    return keep_allocated(doc, must(strndup(text.p, text.len)));
}

const char *ini_resolve(struct ini_doc *doc, const char *file, const char *path)
{
    const char *slash = path[0] != '/' ? strrchr(file, '/') : NULL;
    int dir_len = slash != NULL ? (int)(slash + 1 - file) : 0;
    return keep_allocated(doc, must_format("%.*s%s", dir_len, file, path));
}

void ini_free(struct ini_doc *doc)
{
    free(doc->entries);
    free(doc->files);
    free(doc->include_dirs);
    if (doc->strings != NULL) {
        for (size_t i = 0; i < doc->strings->count; i++)
            free(doc->strings->items[i]);
        free(doc->strings->items);
        free(doc->strings);
    }
    *doc = (struct ini_doc){0};
}

static void add_file(struct ini_doc *doc, const char *path, struct str bytes)
{
    doc->files = grow_one(doc->files, doc->file_count, sizeof(*doc->files));
    struct ini_file *file = &doc->files[doc->file_count++];
    file->path = path;
    digest_make(file->sha256, bytes);
}

static void add_entry(struct parse *parse, const char *key, const char *value)
{
    struct ini_doc *doc = parse->doc;
    doc->entries = grow_one(doc->entries, doc->count, sizeof(*doc->entries));
    doc->entries[doc->count++] = (struct ini_entry){
        .section = parse->section,
        .name = parse->name,
        .key = key,
        .value = value,
        .place = place_of(parse),
        .continuation = key != NULL && parse->indented,
    };
}

struct str ini_cut_comment(struct str line, char mark)
{
    bool quoted = false;
    for (size_t i = 0; i < line.len; i++) {
        if (line.p[i] == '"')
            quoted = !quoted;
        else if (line.p[i] == mark && !quoted && i > 0 &&
                 (line.p[i - 1] == ' ' || line.p[i - 1] == '\t'))
            return (struct str){line.p, i};
    }
    return line;
}

static bool quotes_are_paired(struct str line)
{
    size_t quotes = 0;
    for (size_t i = 0; i < line.len; i++)
        quotes += line.p[i] == '"';
    return quotes % 2 == 0;
}

/* `[section]` or `[section name]`, comment cut and trimmed. */
static void read_header(struct parse *parse, struct str line)
{
    parse->section = parse->name = parse->key = NULL;
    parse->header_seen = true;
    struct str behind = str_from(line, 1), text = str_take_until(&behind, ']');
    if (!str_has(line, ']')) {
        fault(parse, "a section header ends with `]`");
        return;
    }
    behind = str_trim(behind);
    if (behind.len > 0) {
        fault(parse, "`%.*s` stands behind the section header", STR_ARG(behind));
        return;
    }
    if (text.len > INI_SECTION_MAX) {
        fault(parse, "a section header has at most %d bytes between its brackets, this one has %zu",
              INI_SECTION_MAX, text.len);
        return;
    }
    text = str_trim(text);
    if (text.len == 0) {
        fault(parse, "a section needs a name between its brackets");
        return;
    }
    size_t word = 0;
    while (word < text.len && text.p[word] != ' ' && text.p[word] != '\t')
        word++;
    parse->section = ini_keep(parse->doc, (struct str){text.p, word});
    parse->name = ini_keep(parse->doc, str_trim(str_from(text, word)));
    add_entry(parse, NULL, NULL);
}

/* `key = value`; inih takes `:` for `=`, so whichever comes first separates. */
static bool key_is_whole(struct parse *parse, struct str line)
{
    size_t len = 0;
    while (len < line.len && line.p[len] != '=' && line.p[len] != ':')
        len++;
    struct str key = str_trim((struct str){line.p, len});
    if (len == line.len) {
        fault(parse, "expected KEY = VALUE, found `%.*s`", STR_ARG(key));
        return false;
    }
    if (key.len == 0) {
        fault(parse, "a key is missing before `%c`", line.p[len]);
        return false;
    }
    if (str_has(key, ' ') || str_has(key, '\t')) {
        fault(parse, "expected KEY = VALUE, but `%.*s` is not one word", STR_ARG(key));
        return false;
    }
    if (key.len > INI_KEY_MAX) {
        fault(parse, "a key has at most %d bytes, this one has %zu", INI_KEY_MAX, key.len);
        return false;
    }
    return true;
}

/* [2001:db8::1] continues a list of rules, [policy build] does not. */
static bool looks_like_header(struct str text)
{
    return text.p[0] == '[' && text.p[text.len - 1] == ']' && !str_has(text, ':');
}

/* Whether inih may see this key or continuation, comment cut. */
static bool setting_is_sound(struct parse *parse, struct str line, struct str text)
{
    if (parse->indented && looks_like_header(text)) {
        fault(parse, "a section header must not be indented");
        parse->section = NULL;
        parse->header_seen = true;
        return false;
    }
    if (!parse->header_seen) {
        fault(parse, "`%.*s` stands before the first [section]", STR_ARG(text));
        return false;
    }
    if (!quotes_are_paired(text)) {
        fault(parse, "a quote is opened and not closed on this line");
        return false;
    }
    if (ini_cut_comment(line, '#').len < line.len) {
        fault(parse, "`#` starts a comment only at the start of a line; behind a value it is ` ;`");
        return false;
    }
    if (!parse->indented)
        return key_is_whole(parse, text);
    /* Behind a header or key at fault the continuation is neither here nor there. */
    if (parse->key == NULL && parse->section != NULL)
        fault(parse, "an indented line continues the list above it, and here is none");
    return parse->key != NULL;
}

static bool line_is_text(struct parse *parse, struct str line)
{
    size_t end = file_text_end(line);
    if (end == line.len)
        return true;
    unsigned char byte = (unsigned char)line.p[end];
    fault(parse, "byte 0x%02x in column %zu is not %s", (unsigned)byte, end + 1,
          byte < 0x80 ? "text" : "valid UTF-8");
    return false;
}

/* What inih may see of a line; p == NULL when it must see nothing. */
static struct str inspect(struct parse *parse, struct str line)
{
    parse->indented = line.len > 0 && (line.p[0] == ' ' || line.p[0] == '\t');
    if (line.len > INI_LINE_MAX) {
        fault(parse, "a line has at most %d bytes, this one has %zu", INI_LINE_MAX, line.len);
        parse->key = NULL;
        return STR_NULL;
    }
    if (!line_is_text(parse, line)) {
        parse->key = NULL;
        return STR_NULL;
    }
    struct str text = str_trim(line);
    if (text.len == 0 || text.p[0] == ';' || text.p[0] == '#')
        return STR_NULL;
    line = ini_cut_comment(line, ';');
    text = str_trim(line);
    if (text.p[0] == '[' && !parse->indented) {
        read_header(parse, text);
        return parse->section != NULL ? text : STR_NULL;
    }
    if (setting_is_sound(parse, line, text))
        return line;
    parse->key = NULL;
    return STR_NULL;
}

/* The ini_reader: one line with its line feed, like fgets(). */
static char *next_line(char *out, int size, void *stream)
{
    struct parse *parse = stream;
    if (parse->rest.len == 0)
        return NULL;
    struct str line = str_take_line(&parse->rest);
    parse->line++;
    if (line.len > 0 && line.p[line.len - 1] == '\r')
        line.len--;

    struct str seen = inspect(parse, line);
    assert(seen.len + 2 <= (size_t)size);
    if (seen.len > 0)
        memcpy(out, seen.p, seen.len);
    memcpy(out + seen.len, "\n", 2);
    return out;
}

static bool is_include(const struct parse *parse, const char *key)
{
    return strcmp(parse->section, "gateway") == 0 && parse->name[0] == '\0' &&
           strcmp(key, "include") == 0;
}

static void include(struct parse *parse, const char *pattern);

/* The ini_handler: called for the line that next_line() returned last. */
static int on_setting(void *user, const char *section, const char *key, const char *value)
{
    struct parse *parse = user;
    (void)section; /* next_line() keeps it, since inih does not tell of sections without a key */
    if (parse->section == NULL)
        return 1;
    if (parse->key == NULL || strcmp(parse->key, key) != 0)
        parse->key = ini_keep(parse->doc, str_of(key));
    if (is_include(parse, key))
        include(parse, value);
    else
        add_entry(parse, parse->key, ini_keep(parse->doc, str_of(value)));
    return 1;
}

static void parse_text(struct parse *parse)
{
    if (file_has_bom(parse->rest)) {
        parse->line = 1;
        fault(parse, "starts with a byte order mark; save it as UTF-8 without one");
        return;
    }
    const struct str before_nul = str_until(parse->rest, '\0');
    if (before_nul.len < parse->rest.len) {
        parse->line = 1;
        for (size_t i = 0; i < before_nul.len; i++)
            parse->line += before_nul.p[i] == '\n';
        fault(parse, "contains a NUL byte, so it is not a text file");
        return;
    }
    struct str text = parse->rest;
    size_t blank = 0;
    while (blank < text.len && strchr(" \t\r\n", text.p[blank]) != NULL)
        blank++;
    if (blank == text.len) {
        parse->line = 1;
        fault(parse, "is empty");
        return;
    }

    /* These are variables of Debian's libinih, the same for every reader in the process. */
    ini_max_line = INI_LINE_MAX + 3;
    ini_use_stack = true;
    ini_allow_multiline = true;
    ini_allow_bom = false;
    ini_allow_inline_comments = false;
    ini_allow_no_value = false;
    ini_stop_on_first_error = false;
    int bad_line = ini_parse_stream(next_line, parse, on_setting, parse);
    assert(bad_line == 0); /* else next_line() let through what inih does not read */
}

static void read_file(struct ini_doc *doc, const char *path, const struct source *includer,
                      struct place from, struct faults *faults)
{
    autofree char *bytes = NULL;
    size_t len;
    struct stat st;
    struct srt_err err;
    if (file_read(path, INI_FILE_BYTES_MAX, &bytes, &len, &st, &err) != 0) {
        const char *named = includer != NULL ? path : "";
        faults_add(faults, FAULT_ERROR, from, "%s%s%s", named, includer != NULL ? ": " : "",
                   err.text);
        return;
    }
    for (const struct source *above = includer; above != NULL; above = above->includer) {
        if (above->device == st.st_dev && above->inode == st.st_ino) {
            faults_add(faults, FAULT_ERROR, from, "%s includes itself", path);
            return;
        }
    }
    struct source source = {
        .file = path,
        .device = st.st_dev,
        .inode = st.st_ino,
        .includer = includer,
        .depth = includer != NULL ? includer->depth + 1 : 0,
    };
    struct str text = {bytes, len};
    add_file(doc, path, text);
    parse_text(&(struct parse){
        .doc = doc, .faults = faults, .source = &source, .file = path, .rest = text});
}

/* A missing directory is a pattern that matches nothing; one that cannot be read hides files. */
static int on_glob_error(const char *path, int error)
{
    (void)path;
    return error != ENOENT;
}

/* glob() must not see the directory of the including file as a pattern. */
static char *glob_pattern(const char *file, const char *pattern)
{
    const char *slash = pattern[0] == '/' ? NULL : strrchr(file, '/');
    size_t dir_len = slash != NULL ? (size_t)(slash - file) + 1 : 0;
    size_t pattern_size = strlen(pattern) + 1;
    char *out = must(malloc(dir_len * 2 + pattern_size));
    char *to = out;
    for (size_t i = 0; i < dir_len; i++) {
        if (strchr("*?[]\\", file[i]) != NULL)
            *to++ = '\\';
        *to++ = file[i];
    }
    memcpy(to, pattern, pattern_size);
    return out;
}

static void add_include_dir(struct ini_doc *doc, const char *dir)
{
    doc->include_dirs = grow_one(doc->include_dirs, doc->include_dir_count, sizeof(char *));
    doc->include_dirs[doc->include_dir_count++] = dir;
}

/* The directory in which the first wildcard of a pattern stands. */
static void add_first_dir(struct parse *parse, const char *pattern)
{
    autofree char *dir = must(strndup(pattern, strcspn(pattern, "*?[")));
    char *slash = strrchr(dir, '/');
    if (slash == NULL)
        dir[0] = '\0';
    else
        slash[slash == dir] = '\0';
    add_include_dir(parse->doc, ini_resolve(parse->doc, parse->file, dir[0] != '\0' ? dir : "."));
}

static bool is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Those that match `full` as far as `len`: in each, what comes next in the pattern may appear. */
static bool add_matching_dirs(struct parse *parse, const char *full, size_t len)
{
    struct ini_doc *doc = parse->doc;
    autofree char *pattern = must(strndup(full, len));
    glob_t found;
    if (glob(pattern, GLOB_ONLYDIR, on_glob_error, &found) != 0)
        return true; /* nothing, or a fault that the whole pattern has as well */
    bool room = true;
    for (size_t i = 0; i < found.gl_pathc && room; i++) {
        if (!is_dir(found.gl_pathv[i]))
            continue;
        room = doc->include_dir_count < INI_FILES_MAX;
        if (room)
            add_include_dir(doc, ini_keep(doc, str_of(found.gl_pathv[i])));
        else
            fault(parse, "include looks into more than %d directories", INI_FILES_MAX);
    }
    globfree(&found);
    return room;
}

/* Every directory in which a new name may make the pattern match more. */
static void add_include_dirs(struct parse *parse, const char *pattern, const char *full)
{
    add_first_dir(parse, pattern);
    size_t at = strlen(full) - strlen(pattern) + strcspn(pattern, "*?[");
    while (full[at += strcspn(full + at, "/")] != '\0' && add_matching_dirs(parse, full, at))
        at++;
}

/* Also ends files whose patterns take each other in again and again. */
static bool has_room(struct parse *parse)
{
    if (parse->doc->file_count < INI_FILES_MAX)
        return true;
    fault(parse, "include reads more than %d files", INI_FILES_MAX);
    return false;
}

static void include_matches(struct parse *parse, const char *pattern)
{
    autofree char *full = glob_pattern(parse->file, pattern);
    add_include_dirs(parse, pattern, full);
    glob_t found;
    int result = glob(full, 0, on_glob_error, &found);
    if (result == 0) {
        for (size_t i = 0; i < found.gl_pathc && has_room(parse); i++)
            read_file(parse->doc, ini_keep(parse->doc, str_of(found.gl_pathv[i])), parse->source,
                      place_of(parse), parse->faults);
        globfree(&found);
    } else if (result != GLOB_NOMATCH) {
        fault(parse, "include: cannot list `%s`: %s", pattern, strerror(errno));
    }
}

static void include(struct parse *parse, const char *pattern)
{
    if (pattern[0] == '\0')
        fault(parse, "include needs a value");
    else if (parse->source == NULL)
        fault(parse, "include works only in files");
    else if (parse->source->depth + 1 > INI_INCLUDE_DEPTH_MAX)
        fault(parse, "include goes deeper than %d files", INI_INCLUDE_DEPTH_MAX);
    else if (strpbrk(pattern, "*?[") != NULL)
        include_matches(parse, pattern);
    else if (has_room(parse))
        read_file(parse->doc, ini_resolve(parse->doc, parse->file, pattern), parse->source,
                  place_of(parse), parse->faults);
}

/* An included file may hold nothing but comments; a configuration that does decides nothing. */
static void require_a_section(const struct ini_doc *doc, const char *file, size_t errors_before,
                              struct faults *faults)
{
    if (doc->count == 0 && faults->errors == errors_before)
        faults_add(faults, FAULT_ERROR, (struct place){.file = file, .line = 1},
                   "has no [section], so it configures nothing");
}

bool ini_read(struct ini_doc *doc, const char *path, struct faults *faults)
{
    size_t errors = faults->errors;
    path = ini_keep(doc, str_of(path));
    /* Every fault has a line, even where there is none to read. */
    read_file(doc, path, NULL, (struct place){.file = path, .line = 1}, faults);
    require_a_section(doc, path, errors, faults);
    return faults->errors == errors;
}

bool ini_read_text(struct ini_doc *doc, const char *file_name, struct str text,
                   struct faults *faults)
{
    size_t errors = faults->errors;
    file_name = ini_keep(doc, str_of(file_name));
    add_file(doc, file_name, text);
    parse_text(&(struct parse){.doc = doc, .faults = faults, .file = file_name, .rest = text});
    require_a_section(doc, file_name, errors, faults);
    return faults->errors == errors;
}

struct str ini_read_side_file(struct ini_doc *doc, struct place place, const char *path,
                              size_t max_bytes, const char **resolved_path, struct faults *faults)
{
    *resolved_path = ini_resolve(doc, place.file, path);
    char *bytes;
    size_t len;
    struct srt_err err;
    if (file_read(*resolved_path, max_bytes, &bytes, &len, NULL, &err) != 0) {
        faults_add(faults, FAULT_ERROR, place, "%s: %s", *resolved_path, err.text);
        return STR_NULL;
    }
    keep_allocated(doc, bytes);
    add_file(doc, *resolved_path, (struct str){bytes, len});
    return (struct str){bytes, len};
}
