/*
 * A sandbox from outside: its namespaces, and the last stage (stage.h) as process 1 in them.
 *
 * They are made by ourselves where the kernel lets us (spaces.h), which takes a third of the time
 * that bubblewrap takes; by bubblewrap (bwrap.h) where only a program with its privileges or its
 * AppArmor profile may, and where the user has chosen another one than the system's. What comes of
 * it is the same, and launcher/mounts.c does the rest from inside.
 *
 * Thread: the launcher's only one. Failure: -1 with `err`, which names the remedy.
 */
#ifndef LAUNCHER_CELL_H
#define LAUNCHER_CELL_H

#include "launcher/inside.h"

#include <sys/types.h>

struct cell {
    pid_t pid;    /* our child: process 1 itself, or the bubblewrap that waits for it; 0 = none */
    bool direct;  /* process 1 itself */
    int sock;     /* to the last stage */
    int leash;    /* its end, as at our death, kills bubblewrap; -1 = there is none */
    int listener; /* 127.0.0.1:3128 inside; -1 = taken */
    struct inside inside;
};

#define CELL_LOG_SOCKET "/dev/log"

/* What the sandbox's own /dev has of the host's devices. */
enum { CELL_DEVICES = 6 };
extern const char *const cell_devices[CELL_DEVICES];

enum cell_dev {
    CELL_DEV_OPEN,   /* in the sandbox's own /dev, and to be written to */
    CELL_DEV_CLOSED, /* in there, and the sandbox makes nothing in it: /dev itself */
    CELL_DEV_ABSENT, /* the host's only */
};
/* What a clean path at or below /dev, links resolved, means to the sandbox. */
enum cell_dev cell_dev(const char *path);

struct cell_options {
    const char *bwrap;      /* from bwrap_find() */
    bool bwrap_only;        /* the user has asked for it */
    const char *self;       /* this program, to be run as the last stage */
    char **argv;            /* of main(): not for the eyes of who is inside */
    bool closed_streams[3]; /* the caller had them closed */
    bool log_socket;        /* the host's, in a /dev that is otherwise the sandbox's own */
    bool weaker_proc;       /* enableWeakerNestedSandbox: the host's /proc */
    bool verbose;
};

/* Returns when the stage is ready. */
int cell_start(struct cell *cell, const struct cell_options *options, struct srt_err *err);

/* Waits for its end; everything inside is gone then. */
void cell_wait(struct cell *cell);
/* Ends everything inside at once. */
void cell_kill(struct cell *cell);

/* For who makes one: takes the stage's word that it is ready. 1: it said why it is not; -1: it
 * said nothing, or what cannot be. */
int cell_await(struct cell *cell, struct srt_err *err);

#endif
