#include "dns/hosts.h"

#include "dns/watched_file.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>

/* Names are kept as views into one copy of the file, where they stand in their canonical form. */
struct host {
    struct str name;
    uint32_t order;
    struct addr addr;
};

struct hosts_table {
    char *text;
    struct host *hosts; /* by name, then by order in the file */
    size_t count;
};

struct hosts {
    char *path;
    struct watched_file file;
    struct hosts_table *table;
};

static bool next_word(struct str *rest, struct str *word)
{
    return str_next_word(rest, STR(" \t\r\f\v"), word);
}

static bool make_room(struct hosts_table *table, size_t *capacity)
{
    if (table->count < *capacity)
        return true;
    size_t bigger = *capacity != 0 ? 2 * *capacity : 16;
    struct host *hosts = reallocarray(table->hosts, bigger, sizeof(hosts[0]));
    if (hosts == NULL)
        return false;
    table->hosts = hosts;
    *capacity = bigger;
    return true;
}

/* The canonical form is not longer than the word, whose place in the table's text it takes. */
static struct str keep_name(struct hosts_table *table, size_t offset, const struct name *name)
{
    char *place = table->text + offset;
    memcpy(place, name->text, name->len);
    return (struct str){place, name->len};
}

static bool parse_line(struct hosts_table *table, size_t *capacity, struct str line)
{
    struct addr addr;
    struct name name;
    struct str word;
    if (!next_word(&line, &word) || !addr_parse(&addr, word))
        return true;
    while (next_word(&line, &word)) {
        if (name_parse(&name, word) != NAME_OK)
            continue;
        if (!make_room(table, capacity))
            return false;
        struct host *host = &table->hosts[table->count];
        host->name = keep_name(table, (size_t)(word.p - table->text), &name);
        host->order = (uint32_t)table->count++;
        host->addr = addr;
    }
    return true;
}

static int compare_str(struct str a, struct str b)
{
    if (a.len != b.len)
        return a.len < b.len ? -1 : 1;
    return memcmp(a.p, b.p, a.len);
}

static int compare_hosts(const void *a, const void *b)
{
    const struct host *x = a, *y = b;
    int order = compare_str(x->name, y->name);
    if (order != 0)
        return order;
    return x->order < y->order ? -1 : x->order > y->order;
}

struct hosts_table *hosts_table_parse(struct str text)
{
    struct hosts_table *table = calloc(1, sizeof(*table));
    if (table == NULL)
        return NULL;
    table->text = malloc(text.len + 1);
    if (table->text == NULL) {
        hosts_table_free(table);
        return NULL;
    }
    if (text.len > 0)
        memcpy(table->text, text.p, text.len);

    size_t capacity = 0;
    struct str rest = {table->text, text.len};
    while (rest.len > 0) {
        if (!parse_line(table, &capacity, str_until(str_take_line(&rest), '#'))) {
            hosts_table_free(table);
            return NULL;
        }
    }
    if (table->count > 0)
        qsort(table->hosts, table->count, sizeof(table->hosts[0]), compare_hosts);
    return table;
}

void hosts_table_free(struct hosts_table *table)
{
    if (table == NULL)
        return;
    free(table->hosts);
    free(table->text);
    free(table);
}

/* The first host that does not sort before (name, first line). */
static size_t lower_bound(const struct hosts_table *table, struct str name)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_str(table->hosts[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool hosts_table_find(const struct hosts_table *table, const struct name *name,
                      struct resolve_answer *out)
{
    struct str wanted = name_str(name);
    out->count = 0;
    for (size_t i = lower_bound(table, wanted); i < table->count && out->count < RESOLVER_MAX_ADDRS;
         i++) {
        if (!str_eq(table->hosts[i].name, wanted))
            break;
        out->addrs[out->count++] = table->hosts[i].addr;
    }
    out->status = RESOLVE_OK;
    return out->count > 0;
}

/* Up to `size` bytes, or -1. */
static ssize_t read_up_to(int fd, char *buffer, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t n = read(fd, buffer + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

static struct hosts_table *load(const char *path, struct srt_err *err)
{
    /* Not blocking, so that a pipe in the file's place cannot stop a worker. */
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        srt_err_set(err, "cannot read the hosts file %s: %s (none: do without)", path,
                    strerror(errno));
        return NULL;
    }
    if (!S_ISREG(st.st_mode)) {
        srt_err_set(err, "the hosts file %s is not a regular file", path);
        return NULL;
    }
    autofree char *buffer = malloc(HOSTS_MAX_SIZE + 1);
    ssize_t len = buffer != NULL ? read_up_to(fd, buffer, HOSTS_MAX_SIZE + 1) : -1;
    if (len < 0) {
        srt_err_set(err, "cannot read the hosts file %s: %s", path, strerror(errno));
        return NULL;
    }
    if (len > HOSTS_MAX_SIZE) {
        srt_err_set(err, "the hosts file %s is larger than %d bytes", path, HOSTS_MAX_SIZE);
        return NULL;
    }
    struct hosts_table *table = hosts_table_parse((struct str){buffer, (size_t)len});
    if (table == NULL)
        srt_err_set(err, "no memory for the hosts file %s", path);
    return table;
}

struct hosts *hosts_open(const char *path, struct srt_err *err)
{
    struct hosts *hosts = calloc(1, sizeof(*hosts));
    if (hosts == NULL || (hosts->path = strdup(path)) == NULL) {
        hosts_close(hosts);
        srt_err_set(err, "no memory for the hosts file %s", path);
        return NULL;
    }
    watched_file_init(&hosts->file, hosts->path);
    hosts->table = load(path, err);
    if (hosts->table == NULL) {
        hosts_close(hosts);
        return NULL;
    }
    return hosts;
}

void hosts_close(struct hosts *hosts)
{
    if (hosts == NULL)
        return;
    hosts_table_free(hosts->table);
    free(hosts->path);
    free(hosts);
}

bool hosts_find(struct hosts *hosts, const struct name *name, double now_s,
                struct resolve_answer *out)
{
    if (watched_file_changed(&hosts->file, now_s)) {
        struct hosts_table *table = load(hosts->path, NULL);
        if (table != NULL) {
            hosts_table_free(hosts->table);
            hosts->table = table;
        }
    }
    return hosts_table_find(hosts->table, name, out);
}
