#include "launcher/refusals.h"

#include "launcher/strays.h"
#include "launcher/syscalls.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <string.h>

/* The words of a message for what was tried. */
static const char *doing(const char *operation)
{
    static const struct {
        const char *operation, *words;
    } rows[] = {{"read", "reading"},
                {"write", "writing"},
                {"create", "creating"},
                {"mkdir", "creating the directory"},
                {"mknod", "creating"},
                {"bind", "creating the socket"},
                {"symlink", "making the link"},
                {"link", "making the link"},
                {"rename", "renaming"},
                {"unlink", "removing"},
                {"rmdir", "removing the directory"},
                {"truncate", "cutting"},
                {"chmod", "changing the mode of"},
                {"chown", "changing the owner of"},
                {"utimes", "changing the times of"},
                {"setxattr", "changing attributes of"},
                {"removexattr", "changing attributes of"},
                {"setattr", "changing attributes of"},
                {"connect", "connecting to the Unix socket"},
                {"sendto", "sending to the Unix socket"},
                {"sendmsg", "sending to the Unix socket"},
                {"sendmmsg", "sending to the Unix socket"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].operation, operation) == 0)
            return rows[i].words;
    return operation;
}

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* The key of the settings that an entry such as "filesystem.denyWrite[2]" belongs to. */
static const char *write_key(const char *entry)
{
    if (begins(entry, "protected: git") && strstr(entry, "config") != NULL)
        return "filesystem.allowGitConfig";
    if (begins(entry, "filesystem.denyRead"))
        return "filesystem.denyRead";
    return begins(entry, "protected: ") || begins(entry, "filesystem.denyWrite")
               ? "filesystem.denyWrite"
               : "filesystem.allowWrite";
}

static const char config_entry[] = "protected: git configuration: "; /* then the key */

#define ALLOW_GIT_CONFIG "{\"filesystem\": {\"allowGitConfig\": true}} in the settings"

/* What does without a lasting change to the configuration of a repository. */
static const char *config_hint(const char *entry)
{
    static const struct {
        const char *key, *hint;
    } rows[] = {
        {"remote.", "git fetch and git push take an address in place of a remote's name; ask the "
                    "user to add a remote that stays, or for " ALLOW_GIT_CONFIG},
        {"user.", "for commits made here use git -c user.name=NAME -c user.email=ADDRESS, or set "
                  "GIT_AUTHOR_NAME, GIT_AUTHOR_EMAIL, GIT_COMMITTER_NAME and GIT_COMMITTER_EMAIL; "
                  "ask the user to set what stays, or for " ALLOW_GIT_CONFIG},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (begins(entry, rows[i].key))
            return rows[i].hint;
    return "git -c KEY=VALUE sets it for one command; ask the user to make the change that stays, "
           "or for " ALLOW_GIT_CONFIG;
}

static const char *read_hint(const char *entry)
{
    if (begins(entry, "credentials.files"))
        return "it is a credential, which no filesystem.allowRead gives; do without it";
    if (begins(entry, "protected: "))
        return "it holds secrets of the sandbox itself; do without it";
    return "do without this file, or ask the user for it in filesystem.allowRead";
}

/* NULL: no entry denies it, it is only not allowed (hints.h). */
static const char *write_hint(const char *entry)
{
    if (begins(entry, config_entry))
        return config_hint(entry + sizeof(config_entry) - 1);
    if (begins(entry, "protected: git") && strstr(entry, "config") != NULL)
        return "git configuration runs programs outside; ask the user to make the change, or "
               "for " ALLOW_GIT_CONFIG;
    if (strcmp(entry, "protected: cannot be searched") == 0)
        return "nobody can tell which protected names are in there; make the directory readable, "
               "or its path shorter, before the sandbox is started";
    if (strcmp(entry, "protected: srt-launch itself") == 0 ||
        strcmp(entry, "protected: the gateway") == 0)
        return "the sandbox is made of it, whatever the settings say; ask the user to make the "
               "change";
    if (begins(entry, "protected: "))
        return "this name is protected, as something outside runs or obeys it; ask the user to "
               "make the change, or to turn its group off in launch.protect";
    if (begins(entry, "filesystem.denyRead"))
        return "what may not be read may not be written; write somewhere else";
    if (begins(entry, "filesystem.denyWrite"))
        return "the settings deny it; write somewhere else, or ask the user to change this entry";
    return NULL;
}

static void file_refused(struct violations *violations, const struct hints_place *place,
                         const struct warden_report *report, struct violation *violation)
{
    bool read = strcmp(report->operation, "read") == 0;
    /* Nobody's wish: hidden so that ssh works at all, which looks there each time. */
    if (read && begins(report->setting, "default: "))
        return;
    const char *key =
        begins(report->setting, config_entry) ? report->setting + sizeof(config_entry) - 1 : NULL;
    autofree char *message =
        must_format("%s%s%s %s is not allowed in this sandbox",
                    key != NULL ? "setting " : doing(report->operation), key != NULL ? key : "",
                    key != NULL ? " in" : "", report->path);
    violation->kind = "file";
    violation->path = report->path;
    bool credential = begins(report->setting, "credentials.files");
    violation->setting = read && credential ? "credentials.files"
                         : read             ? "filesystem.denyRead"
                                            : write_key(report->setting);
    violation->message = message;
    const char *general = read ? read_hint(report->setting) : write_hint(report->setting);
    autofree char *better = general == NULL ? hints_for_write(place, report->path) : NULL;
    violation->hint = general != NULL ? general : better;
    violations_add(violations, violation);
}

static void socket_refused(struct violations *violations, const struct warden_report *report,
                           struct violation *violation)
{
    autofree char *message =
        must_format("%s %s is not allowed in this sandbox", doing(report->operation), report->path);
    bool abstract = report->path[0] == '@';
    violation->kind = "unix-socket";
    violation->path = report->path;
    violation->setting = "network.allowUnixSockets";
    violation->message = message;
    violation->hint =
        abstract ? "such names end at the sandbox, and no setting opens them; start the service "
                   "inside, or ask the user for one that listens on a path"
                 : "ask the user to name this path in network.allowUnixSockets";
    violations_add(violations, violation);
}

static void syscall_refused(struct violations *violations, const struct warden_report *report,
                            struct violation *violation)
{
    bool sockets = (report->unless & (SYSCALLS_UNIX_SOCKETS | SYSCALLS_NAMED_SOCKETS |
                                      SYSCALLS_NAMED_DATAGRAMS)) != 0;
    bool nested = (report->unless & SYSCALLS_NESTED_USERNS) != 0;
    autofree char *message =
        must_format("%s(%s) is refused in this sandbox", report->operation, report->path);
    violation->kind = sockets ? "unix-socket" : "syscall";
    violation->path = report->path[0] != '\0' ? report->path : NULL;
    violation->setting = sockets  ? "network.allowUnixSockets"
                         : nested ? "allowNestedUserNamespaces"
                                  : NULL;
    violation->message = message;
    violation->hint =
        sockets  ? "programs usually do without it; where one is needed ask the user to name the "
                   "socket's path in network.allowUnixSockets"
        : nested ? "run the program without a sandbox of its own, or ask the user for "
                   "allowNestedUserNamespaces"
        : strcmp(report->operation, "ptrace") == 0 ? "debug what is started for that (gdb, strace "
                                                     "PROGRAM); a sanitizer's search for leaks "
                                                     "is left out with ASAN_OPTIONS=detect_leaks=0"
        : strcmp(report->operation, "socket") == 0
            ? "use TCP by name through the proxy that HTTP_PROXY and ALL_PROXY name"
            : "do without it, or ask the user to run this outside the sandbox";
    violations_add(violations, violation);
}

void refusals_report(struct violations *violations, const struct hints_place *place,
                     struct warden_report *report)
{
    report->comm[sizeof(report->comm) - 1] = '\0';
    report->command[sizeof(report->command) - 1] = '\0';
    report->operation[sizeof(report->operation) - 1] = '\0';
    report->setting[sizeof(report->setting) - 1] = '\0';
    report->path[sizeof(report->path) - 1] = '\0';
    struct violation violation = {
        .operation = report->operation,
        .pid = report->pid,
        .comm = report->comm,
        .command = report->command[0] != '\0' ? report->command : NULL,
        .errno_word = report->error != 0 ? strerrorname_np(report->error) : NULL,
        .rule = report->setting,
    };
    switch ((enum warden_kind)report->kind) {
    case WARDEN_FILE:
        file_refused(violations, place, report, &violation);
        return;
    case WARDEN_SOCKET:
        socket_refused(violations, report, &violation);
        return;
    case WARDEN_SYSCALL:
        syscall_refused(violations, report, &violation);
        return;
    case WARDEN_REPLACE:
        return;
    }
}

static const char *member(const json_t *frame, const char *name)
{
    return json_string_value(json_object_get(frame, name));
}

void refusals_denial(struct violations *violations, const json_t *frame)
{
    const char *host = member(frame, "host");
    if (host == NULL)
        return;
    struct violation violation = {
        .kind = "network",
        .operation = "connect",
        .host = host,
        .port = (unsigned)json_integer_value(json_object_get(frame, "port")),
        .reason = member(frame, "reason"),
        .rule = member(frame, "rule"),
        .setting = "network.allowedDomains",
        .message = member(frame, "message"),
        .hint = member(frame, "next_step"),
    };
    violations_add(violations, &violation);
    json_int_t missed = json_integer_value(json_object_get(frame, "missed"));
    if (missed > 0)
        violations_add_unlisted(violations, (uint64_t)missed);
}

static const char *way_hint(enum refusals_way way)
{
    switch (way) {
    case REFUSALS_PORT:
        return "have the program use the proxy that HTTP_PROXY and ALL_PROXY name, or ask the user "
               "for {\"launch\": {\"egress\": \"transparent\"}} in the settings, with which it "
               "need "
               "not know one";
    case REFUSALS_TRANSPARENT:
        return "use TCP; only look-ups of names may be datagrams";
    case REFUSALS_SOCKET:
        return "have the program use the proxy at the Unix socket that SRT_EGRESS_SOCKET names";
    case REFUSALS_NONE:
        break;
    }
    return "do without the network, or ask the user to run this without egress none";
}

void refusals_strays(struct violations *violations, unsigned strays, enum refusals_way way)
{
    static const struct {
        enum strays stray;
        const char *operation, *error, *rule, *message;
    } rows[] = {
        {STRAYS_ROUTE, "connect", "ENETUNREACH", "default: no route",
         "a connection or a look-up of a name found no way out of this sandbox"},
        {STRAYS_DATAGRAM, "sendto", "ECONNREFUSED", "default: no datagrams",
         "a datagram (a look-up of a name, QUIC) reached nobody, as none leaves this sandbox"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if ((strays & rows[i].stray) == 0)
            continue;
        const struct violation violation = {.kind = "syscall",
                                            .operation = rows[i].operation,
                                            .errno_word = rows[i].error,
                                            .rule = rows[i].rule,
                                            .setting = "launch.egress",
                                            .message = rows[i].message,
                                            .hint = way_hint(way)};
        violations_add(violations, &violation);
    }
}
