/*
 * What system calls that change the tree cost here, in microseconds: the best of many short rounds,
 * as anything else that runs only makes them longer. One JSON object: {"create": 8.1, ...}.
 *
 * And what the machine takes to ask another process and to hear from it, with nothing done for it:
 * `handover` by two pipes, whose writers tell the scheduler that they are about to wait, and
 * `handover_without_hint`, where the answer comes without that, as a descriptor does from whoever
 * answers system calls.
 *
 *   bench-calls ROUNDS      in an empty directory
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 20 };

static char path[64], other[64];
static int here;
static int question, answer_by_pipe, answer_by_event;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void use(int fd)
{
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    close(fd);
}

static void check(bool done)
{
    if (done)
        return;
    perror("the other process");
    exit(1);
}

static void answer_all(int questions, int by_pipe)
{
    uint64_t one = 1;
    for (char kind; read(questions, &kind, 1) == 1;)
        if (write(kind == 'p' ? by_pipe : answer_by_event, &one, sizeof(one)) != sizeof(one))
            break;
    _exit(0);
}

/* Ends with us, whose end of the pipe it sees. */
static void start_other(void)
{
    int questions[2], answers[2];
    check(pipe(questions) == 0 && pipe(answers) == 0 && (answer_by_event = eventfd(0, 0)) >= 0);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        close(questions[1]);
        answer_all(questions[0], answers[1]);
    }
    question = questions[1];
    answer_by_pipe = answers[0];
}

static void ask(char kind, int answers)
{
    uint64_t answer;
    check(write(question, &kind, 1) == 1 &&
          read(answers, &answer, sizeof(answer)) == (ssize_t)sizeof(answer));
}

static void hand_over(void)
{
    ask('p', answer_by_pipe);
}

static void hand_over_without_hint(void)
{
    ask('e', answer_by_event);
}

static void create(void)
{
    use(open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644));
}

static void open_for_write(void)
{
    use(open(path, O_WRONLY | O_TRUNC));
}

static void open_for_read(void)
{
    use(open(path, O_RDONLY));
}

static void change_mode(void)
{
    chmod(path, 0600);
}

static void change_mode_by_descriptor(void)
{
    fchmod(here, 0755);
}

static void move(void)
{
    rename(path, other);
}

static void move_back(void)
{
    rename(other, path);
}

static void erase(void)
{
    unlink(path);
}

static void make_dir(void)
{
    mkdir(path, 0755);
}

static void make_dir_again(void)
{
    mkdir("dir/in", 0755);
}

static void erase_dir(void)
{
    rmdir(path);
}

static const struct {
    const char *name;
    void (*call)(void);
} rows[] = {{"handover", hand_over},
            {"handover_without_hint", hand_over_without_hint},
            {"create", create},
            {"open_for_write", open_for_write},
            {"open_for_read", open_for_read},
            {"chmod", change_mode},
            {"fchmod", change_mode_by_descriptor},
            {"rename", move},
            {"rename_back", move_back},
            {"unlink", erase},
            {"mkdir", make_dir},
            {"mkdir_of_what_is_there", make_dir_again},
            {"rmdir", erase_dir}};

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    mkdir("dir", 0755);
    mkdir("dir/in", 0755);
    here = open(".", O_RDONLY);
    start_other();
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        double best = 1e9;
        for (int round = 0; round < rounds; round++) {
            double start = now_us();
            for (int i = round * BATCH; i < (round + 1) * BATCH; i++) {
                snprintf(path, sizeof(path), "dir/in/f%d", i);
                snprintf(other, sizeof(other), "dir/in/g%d", i);
                rows[row].call();
            }
            double took = (now_us() - start) / BATCH;
            best = took < best ? took : best;
        }
        printf("%s\"%s\": %.1f", row == 0 ? "{" : ", ", rows[row].name, best);
    }
    puts("}");
    return 0;
}
