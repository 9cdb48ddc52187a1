#include "config/fault.h"

#include "config/file.h"
#include "srt/grow.h"
#include "srt/must.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

/* By first and last of each range, in UTF-8: bytes of one length sort as characters do. Control
 * characters (terminals take U+009B for ESC [), what turns the direction of writing around, and
 * line separators. */
size_t fault_unshown_len(struct str text)
{
    static const struct {
        const char *first, *last;
    } ranges[] = {{"\x01", "\x1f"},     {"\x7f", "\x7f"},     {"\xc2\x80", "\xc2\x9f"},
                  {"\u061c", "\u061c"}, {"\u200e", "\u200f"}, {"\u2028", "\u202e"},
                  {"\u2066", "\u2069"}};
    if (text.len == 0 || (text.p[0] >= ' ' && text.p[0] < 0x7f))
        return 0;
    const size_t len = file_utf8_len(text);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (len == strlen(ranges[i].first) && memcmp(text.p, ranges[i].first, len) >= 0 &&
            memcmp(text.p, ranges[i].last, len) <= 0)
            return len;
    return 0;
}

/* How many bytes at the start may be shown as they are. */
static size_t printable_len(struct str text)
{
    return fault_unshown_len(text) > 0 ? 0 : file_utf8_len(text);
}

char *fault_escape(const char *text)
{
    struct str rest = str_of(text);
    char *out = must(malloc(rest.len * 4 + 1));
    char *to = out;
    while (rest.len > 0) {
        size_t len = printable_len(rest);
        if (len > 0)
            to = mempcpy(to, rest.p, len);
        else
            to += sprintf(to, "\\x%02x", (unsigned)(unsigned char)rest.p[0]);
        rest = str_from(rest, len > 0 ? len : 1);
    }
    *to = '\0';
    return out;
}

void faults_add(struct faults *faults, enum fault_level level, struct place place,
                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = must_vformat(format, args);
    va_end(args);

    faults->items = grow_one(faults->items, faults->count, sizeof(*faults->items));
    faults->items[faults->count++] = (struct fault){
        .level = level,
        .file = fault_escape(place.file != NULL ? place.file : ""),
        .line = place.line,
        .column = place.column,
        .text = fault_escape(text),
    };
    faults->errors += level == FAULT_ERROR;
    free(text);
}

const char *fault_format(const struct fault *fault, char *out, size_t size)
{
    const char *level = fault->level == FAULT_WARNING ? "warning: " : "";
    const char *file = fault->file[0] != '\0' ? fault->file : "-";
    if (fault->line == 0)
        snprintf(out, size, "%s: %s%s", file, level, fault->text);
    else if (fault->column == 0)
        snprintf(out, size, "%s:%u: %s%s", file, fault->line, level, fault->text);
    else
        snprintf(out, size, "%s:%u:%u: %s%s", file, fault->line, fault->column, level, fault->text);
    return out;
}

static int compare_unsigned(unsigned a, unsigned b)
{
    return (a > b) - (a < b);
}

/* By file, line and column; faults of one place by their texts, so that repeats meet. */
static int compare(const void *a, const void *b)
{
    const struct fault *fa = a, *fb = b;
    int order = strcmp(fa->file, fb->file);
    if (order == 0)
        order = compare_unsigned(fa->line, fb->line);
    if (order == 0)
        order = compare_unsigned(fa->column, fb->column);
    if (order == 0)
        order = compare_unsigned(fa->level, fb->level);
    return order != 0 ? order : strcmp(fa->text, fb->text);
}

void faults_settle(struct faults *faults)
{
    struct fault *items = faults->items;
    size_t kept = 0;
    if (faults->count > 0)
        qsort(items, faults->count, sizeof(*items), compare);
    for (size_t i = 0; i < faults->count; i++) {
        if (kept > 0 && compare(&items[kept - 1], &items[i]) == 0) {
            faults->errors -= items[i].level == FAULT_ERROR;
            free(items[i].file);
            free(items[i].text);
        } else {
            items[kept++] = items[i];
        }
    }
    faults->count = kept;
}

void faults_print(const struct faults *faults, FILE *out)
{
    /* A copy that borrows the texts, since the caller's order is the caller's. */
    struct fault *sorted = must(calloc(faults->count + 1, sizeof(*sorted)));
    if (faults->count > 0) {
        memcpy(sorted, faults->items, faults->count * sizeof(*sorted));
        qsort(sorted, faults->count, sizeof(*sorted), compare);
    }
    for (size_t i = 0; i < faults->count; i++) {
        if (i > 0 && compare(&sorted[i - 1], &sorted[i]) == 0)
            continue;
        size_t size = strlen(sorted[i].file) + strlen(sorted[i].text) + 64;
        char *line = must(malloc(size));
        fprintf(out, "%s\n", fault_format(&sorted[i], line, size));
        free(line);
    }
    free(sorted);
}

void faults_free(struct faults *faults)
{
    for (size_t i = 0; i < faults->count; i++) {
        free(faults->items[i].file);
        free(faults->items[i].text);
    }
    free(faults->items);
    *faults = (struct faults){0};
}

enum { WORD_MAX = 64 };

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Insertions, deletions, replacements and swaps of neighbours (optimal string alignment); case does
 * not count. Both words are at most WORD_MAX long. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_len; j++)
        above[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned char x = str_lower_byte((unsigned char)a[i - 1]);
            unsigned char y = str_lower_byte((unsigned char)b[j - 1]);
            row[j] = smallest(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == str_lower_byte((unsigned char)b[j - 2]) &&
                y == str_lower_byte((unsigned char)a[i - 2]) && before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
        size_t *recycled = before;
        before = above, above = row, row = recycled;
    }
    return above[b_len];
}

const char *nearest_word(const char *word, const char *const *candidates)
{
    size_t len = strlen(word);
    if (len == 0 || len > WORD_MAX)
        return NULL;
    /* Two changes turn any word of two letters into any other, which would be no help. */
    size_t limit = len < 4 ? 1 : len / 3 > 2 ? len / 3 : 2;
    const char *nearest = NULL;
    for (; *candidates != NULL; candidates++) {
        size_t candidate_len = strlen(*candidates);
        if (candidate_len > WORD_MAX)
            continue;
        size_t changes = distance(word, len, *candidates, candidate_len);
        if (changes <= limit) {
            nearest = *candidates;
            if (changes == 0)
                break;
            limit = changes - 1;
        }
    }
    return nearest;
}

const char *nearest_hint(char out[NEAREST_HINT_MAX], const char *mark, const char *word,
                         const char *const *candidates)
{
    _Static_assert(WORD_MAX + sizeof("; did you mean ``?") <= NEAREST_HINT_MAX, "room for both");
    const char *nearest = nearest_word(word, candidates);
    out[0] = '\0';
    if (nearest != NULL)
        snprintf(out, NEAREST_HINT_MAX, "; did you mean %s%s%s?", mark, nearest, mark);
    return out;
}
