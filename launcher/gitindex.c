#include "launcher/gitindex.h"

#include "launcher/protect.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* As in git's Documentation/gitformat-index.txt. An entry is ten numbers, a hash, flags, and the
 * name; from version 4 on of the name only how much of the one before is dropped, and what follows.
 */
enum {
    HEADER = 12,
    VERSION_AT = 4,
    COUNT_AT = 8,
    MODE_AT = 24,
    HASH_AT = 40,
    NAME_MASK = 0xfff, /* of the flags: the length, or that it is at least this */
    EXTENDED = 0x4000,
    VERSION_EXTENDED = 3,
    VERSION_PREFIXES = 4,
    DIRECTORY = 040000, /* the mode of one that is kept as a whole (sparse index) */
    EXTENSION_HEAD = 8,
    NAME_ROOM = 256, /* at first */
    OFFSETS_VERSION = 1,
};

struct reader {
    const unsigned char *begin, *at, *end;
    size_t hash;
    unsigned version;
    char *name; /* the one before, for version 4 */
    size_t name_len, name_size;
};

static unsigned number(const unsigned char *at, size_t bytes)
{
    unsigned value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static size_t left(const struct reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

/* decode_varint() of git's varint.c. */
static bool take_varint(struct reader *reader, size_t *value)
{
    if (reader->at == reader->end)
        return false;
    unsigned c = *reader->at++;
    *value = c & 0x7f;
    while ((c & 0x80) != 0) {
        if (reader->at == reader->end || *value >= SIZE_MAX >> 8)
            return false;
        c = *reader->at++;
        *value = ((*value + 1) << 7) + (c & 0x7f);
    }
    return true;
}

/* What a tree may take for `.git`: by the short name that FAT and NTFS give it, too. */
static bool is_git(const char *name, size_t len)
{
    bool is_short = len == 5 && strncasecmp(name, "git~", 4) == 0 && name[4] >= '1';
    return is_short || protect_is_git(name, len);
}

/* A name that is not the work tree's: git's verify_path() refuses the same in commits. */
static bool is_stray(const char *name, unsigned mode)
{
    if (name[0] == '\0')
        return false; /* the name is in the shared index */
    for (const char *p = name;; p++) {
        size_t len = strcspn(p, "/");
        bool last = p[len] == '\0';
        bool whole = last && len == 0 && p > name && mode == DIRECTORY;
        bool dots = (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.');
        if ((len == 0 && !whole) || dots || is_git(p, len))
            return true;
        if (last)
            return false;
        p += len;
    }
}

/* Puts the name together of `kept` bytes of the one before and what comes now. */
static bool take_name(struct reader *reader, size_t kept)
{
    const unsigned char *nul = memchr(reader->at, '\0', left(reader));
    if (nul == NULL)
        return false;
    size_t len = (size_t)(nul - reader->at);
    if (kept + len + 1 > reader->name_size) {
        reader->name_size = 2 * (kept + len + 1);
        reader->name = must(realloc(reader->name, reader->name_size));
    }
    memcpy(reader->name + kept, reader->at, len + 1);
    reader->name_len = kept + len;
    reader->at = nul + 1;
    return true;
}

static bool take_entry(struct reader *reader, unsigned *mode)
{
    const unsigned char *start = reader->at;
    size_t fixed = HASH_AT + reader->hash + 2;
    if (left(reader) < fixed)
        return false;
    unsigned flags = number(start + HASH_AT + reader->hash, 2);
    *mode = number(start + MODE_AT, 4);
    if ((flags & EXTENDED) != 0)
        fixed += 2;
    if (left(reader) < fixed || ((flags & EXTENDED) != 0 && reader->version < VERSION_EXTENDED))
        return false;
    reader->at += fixed;
    size_t dropped = reader->name_len;
    if (reader->version == VERSION_PREFIXES &&
        (!take_varint(reader, &dropped) || dropped > reader->name_len))
        return false;
    if (!take_name(reader, reader->name_len - dropped))
        return false;
    size_t told = flags & NAME_MASK;
    if (told != (reader->name_len < NAME_MASK ? reader->name_len : NAME_MASK))
        return false;
    if (reader->version == VERSION_PREFIXES)
        return true;
    /* Filled up with NULs to a multiple of eight, one at least. */
    size_t whole = (fixed + reader->name_len + 8) & ~(size_t)7;
    if ((size_t)(reader->end - start) < whole)
        return false;
    reader->at = start + whole;
    return true;
}

static enum gitindex_end look_at_entries(struct reader *reader, unsigned count, char *name,
                                         size_t size)
{
    unsigned mode;
    reader->name_len = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!take_entry(reader, &mode))
            return GITINDEX_ODD;
        if (is_stray(reader->name, mode)) {
            snprintf(name, size, "%s", reader->name);
            return GITINDEX_STRAY;
        }
    }
    return GITINDEX_PLAIN;
}

/* Where several threads are to begin, which read from there whatever stands in between. They
 * read no more entries than there are. */
static enum gitindex_end look_at_offsets(const struct reader *all, const unsigned char *at,
                                         size_t len, char *name, size_t size)
{
    unsigned count = number(all->begin + COUNT_AT, 4);
    if (len % 8 != 4 || number(at, 4) != OFFSETS_VERSION)
        return GITINDEX_ODD;
    enum gitindex_end end = GITINDEX_PLAIN;
    for (size_t i = 4; i < len && end == GITINDEX_PLAIN; i += 8) {
        struct reader reader = *all;
        unsigned offset = number(at + i, 4), here = number(at + i + 4, 4);
        if (offset < HEADER || offset > (size_t)(all->end - all->begin) || here > count)
            return GITINDEX_ODD;
        count -= here;
        reader.at = all->begin + offset;
        reader.name = must(malloc(NAME_ROOM));
        reader.name_size = NAME_ROOM;
        end = look_at_entries(&reader, here, name, size);
        free(reader.name);
    }
    return end;
}

/* `reader` is behind the entries, where git has to look for extensions, too: at the end of the file
 * one of them says where the first is. */
static enum gitindex_end look_at_extensions(const struct reader *reader, char *name, size_t size)
{
    const size_t last = EXTENSION_HEAD + 4 + reader->hash;
    const unsigned char *at = reader->at;
    if (left(reader) >= last && memcmp(reader->end - last, "EOIE", 4) == 0 &&
        number(reader->end - last + EXTENSION_HEAD, 4) != (size_t)(at - reader->begin))
        return GITINDEX_ODD;
    enum gitindex_end end = GITINDEX_PLAIN;
    while (end == GITINDEX_PLAIN && at < reader->end) {
        if (reader->end - at < EXTENSION_HEAD)
            return GITINDEX_ODD;
        size_t len = number(at + 4, 4);
        const unsigned char *body = at + EXTENSION_HEAD;
        if ((size_t)(reader->end - body) < len)
            return GITINDEX_ODD;
        if (memcmp(at, "IEOT", 4) == 0)
            end = look_at_offsets(reader, body, len, name, size);
        at = body + len;
    }
    return end;
}

enum gitindex_end gitindex_look(const char *bytes, size_t len, size_t hash, char *name, size_t size)
{
    const unsigned char *begin = (const unsigned char *)bytes;
    if (len < HEADER + hash || memcmp(bytes, "DIRC", 4) != 0)
        return GITINDEX_PLAIN;
    unsigned version = number(begin + VERSION_AT, 4);
    if (version < 2 || version > VERSION_PREFIXES)
        return GITINDEX_PLAIN;
    struct reader reader = {.begin = begin,
                            .at = begin + HEADER,
                            .end = begin + len - hash,
                            .hash = hash,
                            .version = version,
                            .name = must(malloc(NAME_ROOM)),
                            .name_size = NAME_ROOM};
    enum gitindex_end end = look_at_entries(&reader, number(begin + COUNT_AT, 4), name, size);
    if (end == GITINDEX_PLAIN)
        end = look_at_extensions(&reader, name, size);
    free(reader.name);
    return end;
}
