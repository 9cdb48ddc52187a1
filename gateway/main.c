/* srt-gateway: the words of the command line to the code that does them. */
#include "commands/command.h"
#include "config/fault.h"
#include "srt/must.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define AT_ADMIN "[--admin ADDR] [-c FILE] [--token-file FILE] [--json]"

static const struct command commands[] = {
    {"run", command_run, "[-c FILE]", "Serve in the foreground, with messages on stderr."},
    {"check", command_check, "[-c FILE] [--strict]",
     "Read the configuration as run would and report every fault."},
    {"explain", command_explain,
     "[-c FILE] [--policy NAME] [--addr IP] [--method M] [--path P] [--sni NAME] [--front F] "
     "[--json] TARGET",
     "Judge one request, without resolving it: host:port, https://host/path or http://host/path."},
    {"options", command_options, "", "Every section and key, type and default, one line each."},
    {"status", command_ask, AT_ADMIN, "What a running gateway is doing."},
    {"reload", command_ask, AT_ADMIN, "Make a running gateway read its files again."},
    {"tunnels", command_ask, AT_ADMIN, "Open tunnels of a running gateway."},
    {"cut", command_cut, AT_ADMIN " ID", "Cut one tunnel."},
    {"tail", command_tail, AT_ADMIN " [-f]", "Recent decisions of a running gateway."},
    {"drain", command_ask, AT_ADMIN, "Let a running gateway finish and end."},
    {"pending", command_ask, AT_ADMIN, "Requests that wait for an approval."},
    {"approve", command_answer, AT_ADMIN " [--for DURATION] ID",
     "Let a waiting request go on; with --for also what the same one asks later. Prints the rule "
     "line that would allow it."},
    {"refuse", command_answer, AT_ADMIN " [--for DURATION] ID",
     "Refuse a waiting request; with --for also what the same one asks later."},
    {"grant", command_grant,
     AT_ADMIN " [--for DURATION] [--sandbox NAME | --client NAME | --listener NAME] "
              "[--policy NAME] [--refuse] HOST:PORT | --revoke ID",
     "Answer for a time before anybody asks, or take such an answer back."},
    {"grants", command_ask, AT_ADMIN, "Answers that hold for a time."},
    {"replay", command_replay, "[-c FILE] [--policy NAME] [--json] AUDIT.jsonl",
     "Judge recorded requests under another policy."},
    {"learn", command_learn, "[--exact] AUDIT.jsonl",
     "The fewest rule lines that would allow what was denied."},
    {"summary", command_summary, "[--json] [--top N] AUDIT.jsonl",
     "Who was denied what, and the line that would allow it; who asks, and when."},
};
enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static int print_help(void)
{
    printf("usage: srt-gateway [COMMAND] [options]\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-8s %s\n", commands[i].name, commands[i].summary);
    printf("\nsrt-gateway COMMAND --help says more. Without a COMMAND: run.\n");
    return EXIT_DONE;
}

static int unknown_command(const char *word)
{
    const char *names[COMMAND_COUNT + 1] = {NULL};
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    char hint[NEAREST_HINT_MAX];
    fprintf(stderr, "srt-gateway: there is no command '%s'%s\n", word,
            nearest_hint(hint, "'", word, names));
    return EXIT_USAGE;
}

/* A script that reads half an answer must not take it for the whole. */
static int all_was_said(int status)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return status;
    fputs("srt-gateway: standard output cannot be written\n", stderr);
    return EXIT_SYSTEM;
}

const int must_status = EXIT_SYSTEM;

static void on_abort(int number)
{
    static const char text[] = "srt-gateway: that is a bug; please report it\n";
    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(EXIT_BUG);
}

/* Of what failed an assertion a core says most; where one is written it goes with the signal. */
static void tell_bugs(void)
{
    struct rlimit core;
    if (getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0)
        signal(SIGABRT, on_abort);
}

int main(int argc, char **argv)
{
    tell_bugs();
    static char program[] = "srt-gateway"; /* what getopt's messages begin with */
    const char *word = argc > 1 ? argv[1] : "run";
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        return print_help();
    if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0) {
        command_print_version();
        return EXIT_DONE;
    }
    bool named = argc > 1 && word[0] != '-';
    if (named) {
        argv++;
        argc--;
    } else {
        word = "run";
    }
    if (argc > 0)
        argv[0] = program;
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, word) == 0)
            return all_was_said(commands[i].run(&commands[i], argc, argv));
    return unknown_command(word);
}
