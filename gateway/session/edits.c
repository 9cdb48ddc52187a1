#include "session/edits.h"

#include "filters/field.h"

/* ---- collecting ---- */

static int add(struct srt_filter_edits *edits, struct str name, bool sets, struct str value)
{
    if (!edits->visible || edits->count == EDITS_MAX || name.len > EDITS_BYTES_MAX ||
        value.len > EDITS_BYTES_MAX || edits->text.len + name.len + value.len > EDITS_BYTES_MAX ||
        !field_is_editable(name) || !field_value_is_valid(value))
        return -1;
    edits->items[edits->count].name = edits->text.len;
    edits->items[edits->count].name_len = name.len;
    buf_append(&edits->text, name);
    edits->items[edits->count].sets = sets;
    edits->items[edits->count].value = edits->text.len;
    edits->items[edits->count].value_len = value.len;
    buf_append(&edits->text, value);
    edits->count++;
    return 0;
}

int edits_set(struct srt_filter_edits *edits, struct srt_filter_text name,
              struct srt_filter_text value)
{
    return add(edits, (struct str){name.p, name.len}, true, (struct str){value.p, value.len});
}

int edits_remove(struct srt_filter_edits *edits, struct srt_filter_text name)
{
    return add(edits, (struct str){name.p, name.len}, false, STR(""));
}

void edits_free(struct srt_filter_edits *edits)
{
    buf_free(&edits->text);
    edits->count = 0;
}

/* ---- a head of ours: lines that end with CRLF, the last one empty, one space behind a colon ----
 */

static struct str take_line(struct str *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->p, '\n', rest->len) : NULL;
    struct str line = {rest->p, end != NULL ? (size_t)(end - rest->p) + 1 : rest->len};
    *rest = str_from(*rest, line.len);
    return line;
}

static struct str field_name(struct str line)
{
    const char *colon = memchr(line.p, ':', line.len);
    return (struct str){line.p, colon != NULL ? (size_t)(colon - line.p) : 0};
}

size_t head_count_lines(struct str head)
{
    size_t count = 0;
    while (head.len > 0) {
        take_line(&head);
        count++;
    }
    return count;
}

size_t head_fields(struct str head, struct srt_filter_field *fields)
{
    size_t count = 0;
    take_line(&head);
    while (head.len > 0) {
        struct str line = take_line(&head);
        const struct str name = field_name(line);
        if (name.len == 0)
            continue;
        line.len -= 2;
        const struct str value = str_trim(str_from(line, name.len + 1));
        fields[count++] = (struct srt_filter_field){{name.p, name.len}, {value.p, value.len}};
    }
    return count;
}

struct str head_path(struct str head)
{
    struct str line = take_line(&head);
    const char *first = memchr(line.p, ' ', line.len);
    if (first == NULL)
        return STR_NULL;
    line = str_from(line, (size_t)(first - line.p) + 1);
    const char *second = memchr(line.p, ' ', line.len);
    return second != NULL ? (struct str){line.p, (size_t)(second - line.p)} : STR_NULL;
}

/* ---- changing one ---- */

static struct str part(const struct srt_filter_edits *edits, size_t at, size_t len)
{
    return (struct str){buf_view(&edits->text).p + at, len};
}

static struct str edited_name(const struct srt_filter_edits *edits, size_t i)
{
    return part(edits, edits->items[i].name, edits->items[i].name_len);
}

/* Whether an edit from number `from` on is about that field. */
static bool is_edited(const struct srt_filter_edits *edits, size_t from, struct str name)
{
    for (size_t i = from; i < edits->count; i++)
        if (str_ieq(edited_name(edits, i), name))
            return true;
    return false;
}

/* The last word about a field counts. */
static void append_set_fields(const struct srt_filter_edits *edits, struct buf *out)
{
    for (size_t i = 0; i < edits->count; i++) {
        const struct str name = edited_name(edits, i);
        if (!edits->items[i].sets || is_edited(edits, i + 1, name))
            continue;
        buf_append(out, name);
        buf_append(out, STR(": "));
        buf_append(out, part(edits, edits->items[i].value, edits->items[i].value_len));
        buf_append(out, STR("\r\n"));
    }
}

void edits_apply(const struct srt_filter_edits *edits, struct buf *head)
{
    struct buf edited = {0};
    struct str rest = buf_view(head);
    if (edits->count == 0)
        return;
    buf_append(&edited, take_line(&rest));
    while (rest.len > 2) {
        const struct str line = take_line(&rest);
        if (!is_edited(edits, 0, field_name(line)))
            buf_append(&edited, line);
    }
    append_set_fields(edits, &edited);
    buf_append(&edited, rest);
    buf_free(head);
    *head = edited;
}
