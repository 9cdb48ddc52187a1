#include "launcher/strays.h"

#include "srt/cleanup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 16384 };

/* The line that begins with the name, or NULL. */
static const char *line_of(const char *text, const char *name)
{
    const size_t len = strlen(name);
    while (text != NULL && *text != '\0' && strncmp(text, name, len) != 0) {
        text = strchr(text, '\n');
        text = text != NULL ? text + 1 : NULL;
    }
    return text != NULL && *text != '\0' ? text : NULL;
}

static const char *next_word(const char *word)
{
    word += strcspn(word, " \n");
    return word + strspn(word, " ");
}

/* snmp: two lines for each group, the first of names and the second of their values. */
static bool counted_in_group(const char *snmp, const char *group, const char *name)
{
    const char *names = line_of(snmp, group);
    const char *values = names != NULL ? line_of(names + strlen(group), group) : NULL;
    if (values == NULL)
        return false;
    const size_t len = strlen(name);
    while (*names != '\n' && *values != '\n' && *values != '\0') {
        if (strncmp(names, name, len) == 0 && (names[len] == ' ' || names[len] == '\n'))
            return strtoull(values, NULL, 10) > 0;
        names = next_word(names);
        values = next_word(values);
    }
    return false;
}

/* snmp6: a name and its value on each line. */
static bool counted(const char *snmp6, const char *name)
{
    const char *line = line_of(snmp6, name);
    return line != NULL && strtoull(line + strlen(name), NULL, 10) > 0;
}

unsigned strays_of(const char *snmp, const char *snmp6)
{
    bool route = counted_in_group(snmp, "Ip: ", "OutNoRoutes") || counted(snmp6, "Ip6OutNoRoutes");
    bool datagram = counted_in_group(snmp, "Udp: ", "NoPorts") || counted(snmp6, "Udp6NoPorts");
    return (route ? STRAYS_ROUTE : 0u) | (datagram ? STRAYS_DATAGRAM : 0u);
}

static void read_text(int proc, const char *path, char *text)
{
    autoclose int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t got;
    while (fd >= 0 && len < TEXT_SIZE - 1 && (got = read(fd, text + len, TEXT_SIZE - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = '\0';
}

/* In a child that has joined the network namespace, whose counters its own /proc/PID/net has. */
static int look(void *context, const struct inside *inside, struct inside_gift *gift,
                struct srt_err *err)
{
    (void)context, (void)gift, (void)err;
    static char snmp[TEXT_SIZE], snmp6[TEXT_SIZE];
    read_text(inside->host_proc, "self/net/snmp", snmp);
    read_text(inside->host_proc, "self/net/snmp6", snmp6);
    return (int)strays_of(snmp, snmp6);
}

unsigned strays_seen(const struct inside *inside)
{
    struct srt_err err;
    const int result = inside_do(inside, INSIDE_NET, look, NULL, NULL, &err);
    return result > 0 ? (unsigned)result : 0;
}
