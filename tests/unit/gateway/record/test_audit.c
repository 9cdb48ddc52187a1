#include "record/audit.h"

#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

/* A folder of its own for each test, and a log in it. */
struct place {
    char dir[64], log[96], other[96];
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    strcpy(place->dir, "/tmp/srt-audit-XXXXXX");
    assert_non_null(mkdtemp(place->dir));
    snprintf(place->log, sizeof(place->log), "%s/audit.jsonl", place->dir);
    snprintf(place->other, sizeof(place->other), "%s/audit.jsonl.1", place->dir);
    *state = place;
    return 0;
}

static int drop_place(void **state)
{
    struct place *place = *state;
    unlink(place->log);
    unlink(place->other);
    rmdir(place->dir);
    free(place);
    return 0;
}

static struct audit *open_audit(const char *path, bool required, size_t queue_bytes)
{
    struct srt_err err;
    struct audit_config config = {.path = path, .required = required, .queue_bytes = queue_bytes};
    struct audit *audit = audit_open(&config, &err);
    if (audit == NULL)
        print_error("%s\n", err.text);
    assert_non_null(audit);
    return audit;
}

/* What a worker waits for. */
struct waiter {
    sem_t told;
    bool go;
};

static void on_written(void *arg, uint64_t ticket, bool go)
{
    struct waiter *waiter = arg;
    (void)ticket;
    waiter->go = go;
    sem_post(&waiter->told);
}

static bool submit_and_wait(struct audit *audit, const char *fields, bool *go)
{
    struct waiter waiter;
    sem_init(&waiter.told, 0, 0);
    if (!audit_submit(audit, str_of(fields), on_written, &waiter, 1))
        return false;
    while (sem_wait(&waiter.told) != 0)
        ;
    sem_destroy(&waiter.told);
    *go = waiter.go;
    return true;
}

static void submit(struct audit *audit, const char *fields)
{
    assert_true(audit_submit(audit, str_of(fields), NULL, NULL, 0));
}

/* Adds the records of a log to `records` (an array); every line must be whole and valid. */
static void read_log(const char *path, json_t *records)
{
    autofclose FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t len; (len = getline(&line, &cap, file)) > 0;) {
        assert_int_equal(line[len - 1], '\n');
        json_t *record = json_loadb(line, (size_t)len, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(record);
        assert_string_equal(json_string_value(json_object_get(record, "schema")), "srt.audit/1");
        json_array_append_new(records, record);
    }
    free(line);
}

static long long number(const json_t *records, size_t index, const char *key)
{
    return json_integer_value(json_object_get(json_array_get(records, index), key));
}

static const char *word(const json_t *records, size_t index, const char *key)
{
    return json_string_value(json_object_get(json_array_get(records, index), key));
}

static void numbers_have_no_gaps(const json_t *records)
{
    for (size_t i = 0; i < json_array_size(records); i++)
        assert_int_equal(number(records, i, "seq"), i);
}

/* The sum that the `lost` records of a log tell. */
static long long losses(const json_t *records)
{
    long long sum = 0;
    for (size_t i = 0; i < json_array_size(records); i++)
        if (strcmp(word(records, i, "kind"), "lost") == 0)
            sum += number(records, i, "count");
    return sum;
}

static void a_record_is_one_line_with_time_and_number(void **state)
{
    const struct place *place = *state;
    struct audit *audit = open_audit(place->log, true, 0);
    bool go = false;
    assert_true(audit_waits(audit));
    assert_true(submit_and_wait(audit, "\"kind\":\"decision\",\"id\":\"a\"", &go));
    assert_true(go);
    submit(audit, "\"kind\":\"close\",\"id\":\"a\"");
    audit_close(audit);

    json_t *records = json_array();
    read_log(place->log, records);
    assert_int_equal(json_array_size(records), 2);
    numbers_have_no_gaps(records);
    assert_string_equal(word(records, 0, "kind"), "decision");
    assert_string_equal(word(records, 1, "kind"), "close");
    const char *ts = word(records, 0, "ts");
    assert_int_equal(strlen(ts), strlen("2026-01-02T03:04:05.678Z"));
    assert_int_equal(ts[10], 'T');
    assert_int_equal(ts[19], '.');
    assert_int_equal(ts[23], 'Z');
    json_decref(records);

    struct stat st;
    assert_int_equal(stat(place->log, &st), 0);
    assert_int_equal(st.st_mode & 0137, 0); /* 0640 whatever the umask adds to it */
}

static void a_missing_directory_is_refused(void **state)
{
    const struct place *place = *state;
    char path[128];
    struct srt_err err;
    snprintf(path, sizeof(path), "%s/none/audit.jsonl", place->dir);
    struct audit_config config = {.path = path, .required = true};
    assert_null(audit_open(&config, &err));
    assert_non_null(strstr(err.text, path));
    config.path = place->dir;
    assert_null(audit_open(&config, &err));
}

static void none_takes_everything_and_nobody_waits(void **state)
{
    (void)state;
    struct audit *audit = open_audit("none", true, 0);
    assert_false(audit_waits(audit));
    assert_true(audit_submit(audit, STR("\"kind\":\"close\""), on_written, NULL, 1));
    assert_true(audit_healthy(audit));
    audit_close(audit);
}

static void half_a_line_of_a_killed_process_stays_alone(void **state)
{
    const struct place *place = *state;
    int fd = open(place->log, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, "{\"half", 6), 6);
    close(fd);
    struct audit *audit = open_audit(place->log, true, 0);
    submit(audit, "\"kind\":\"close\"");
    audit_close(audit);
    autofclose FILE *file = fopen(place->log, "r");
    char line[256];
    assert_non_null(fgets(line, sizeof(line), file));
    assert_string_equal(line, "{\"half\n");
    assert_non_null(fgets(line, sizeof(line), file));
    json_t *record = json_loads(line, 0, NULL);
    assert_non_null(record);
    json_decref(record);
}

struct flood {
    struct audit *audit;
    int count;
};

static void *flood(void *arg)
{
    struct flood *flood = arg;
    for (int i = 0; i < flood->count; i++)
        submit(flood->audit, "\"kind\":\"close\",\"id\":\"0123456789\"");
    return NULL;
}

static void rotation_under_load_loses_and_doubles_nothing(void **state)
{
    const struct place *place = *state;
    enum { THREADS = 3, EACH = 5000 };
    struct audit *audit = open_audit(place->log, true, 64 << 20);
    pthread_t threads[THREADS];
    struct flood work = {audit, EACH};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, flood, &work), 0);
    while (audit_count(audit) < THREADS * EACH / 3)
        sched_yield();
    assert_int_equal(rename(place->log, place->other), 0);
    audit_reopen(audit);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    bool go;
    assert_true(submit_and_wait(audit, "\"kind\":\"close\",\"id\":\"last\"", &go));
    audit_close(audit);

    json_t *records = json_array();
    read_log(place->other, records);
    assert_true(json_array_size(records) > 0);
    read_log(place->log, records);
    assert_int_equal(json_array_size(records), THREADS * EACH + 1);
    numbers_have_no_gaps(records);
    json_decref(records);
}

static void a_deleted_log_begins_anew_without_being_asked(void **state)
{
    const struct place *place = *state;
    struct audit *audit = open_audit(place->log, true, 0);
    bool go;
    assert_true(submit_and_wait(audit, "\"kind\":\"close\",\"id\":\"a\"", &go));
    assert_int_equal(unlink(place->log), 0);
    assert_true(submit_and_wait(audit, "\"kind\":\"close\",\"id\":\"b\"", &go));
    audit_close(audit);
    json_t *records = json_array();
    read_log(place->log, records);
    assert_int_equal(json_array_size(records), 1);
    assert_string_equal(word(records, 0, "id"), "b");
    json_decref(records);
}

/* A file size limit behaves like a full disk: a short write first, then an error. */
static void set_file_limit(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_full_disk_refuses_and_recovers_when_required(void **state)
{
    const struct place *place = *state;
    struct audit *audit = open_audit(place->log, true, 0);
    bool go = false;
    set_file_limit(300);
    assert_true(submit_and_wait(audit, "\"kind\":\"decision\",\"id\":\"first\"", &go));
    assert_true(go);
    int refused = 0;
    /* Waiters are refused at once, then nobody is taken who would wait. */
    while (submit_and_wait(audit, "\"kind\":\"decision\",\"id\":\"fits-or-not\"", &go))
        refused += !go;
    assert_true(refused > 0);
    assert_false(audit_healthy(audit));
    submit(audit, "\"kind\":\"close\",\"id\":\"first\""); /* nobody waits: kept for later */

    set_file_limit(RLIM_INFINITY);
    while (!audit_healthy(audit))
        sched_yield();
    assert_true(submit_and_wait(audit, "\"kind\":\"decision\",\"id\":\"after\"", &go));
    assert_true(go);
    uint64_t lost = audit_lost(audit);
    assert_int_equal(lost, refused + 1);
    audit_close(audit);

    json_t *records = json_array();
    read_log(place->log, records);
    numbers_have_no_gaps(records);
    bool closed = false;
    for (size_t i = 0; i < json_array_size(records); i++)
        closed |= strcmp(word(records, i, "kind"), "close") == 0;
    assert_int_equal(losses(records), lost);
    assert_true(closed);
    json_decref(records);
}

static void a_full_disk_stops_nobody_when_not_required(void **state)
{
    const struct place *place = *state;
    struct audit *audit = open_audit(place->log, false, 4096);
    bool go = false;
    int taken = 0;
    set_file_limit(300);
    while (submit_and_wait(audit, "\"kind\":\"decision\",\"id\":\"x\"", &go)) {
        assert_true(go);
        taken++;
    }
    assert_true(audit_healthy(audit));
    assert_false(audit_waits(audit));

    set_file_limit(RLIM_INFINITY);
    while (!audit_waits(audit))
        sched_yield();
    audit_close(audit);
    json_t *records = json_array();
    read_log(place->log, records);
    numbers_have_no_gaps(records);
    assert_int_equal(json_array_size(records), taken + 1); /* all that were taken, and the loss */
    assert_int_equal(losses(records), 1);
    json_decref(records);
}

static void a_reader_that_stopped_stalls_nobody(void **state)
{
    const struct place *place = *state;
    assert_int_equal(mkfifo(place->log, 0600), 0);
    autoclose int reader = open(place->log, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_true(fcntl(reader, F_SETPIPE_SZ, 4096) >= 4096);
    struct audit *audit = open_audit(place->log, false, 32 << 10);
    bool go = false;
    uint64_t taken = 0;
    while (submit_and_wait(audit, "\"kind\":\"decision\",\"id\":\"x\"", &go)) {
        assert_true(go);
        taken++;
    }
    assert_int_equal(audit_lost(audit), 1);

    /* The reader comes back: whole lines in order, then the loss. */
    char buffer[4096];
    json_t *records = json_array();
    FILE *copy = fopen(place->other, "w");
    while (audit_count(audit) < taken + 1) {
        ssize_t n = read(reader, buffer, sizeof(buffer));
        if (n > 0)
            assert_int_equal(fwrite(buffer, 1, (size_t)n, copy), n);
    }
    for (ssize_t n; (n = read(reader, buffer, sizeof(buffer))) > 0;)
        assert_int_equal(fwrite(buffer, 1, (size_t)n, copy), n);
    fclose(copy);
    audit_close(audit);
    read_log(place->other, records);
    assert_int_equal(json_array_size(records), taken + 1);
    numbers_have_no_gaps(records);
    assert_int_equal(losses(records), 1);
    json_decref(records);
}

/* While it lives standard error goes to that file. */
static int divert_stderr(const char *path)
{
    const int old = dup(STDERR_FILENO), file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    assert_true(old >= 0 && dup2(file, STDERR_FILENO) >= 0);
    close(file);
    return old;
}

static long unwritten_as_said(const char *path)
{
    autofclose FILE *said = fopen(path, "r");
    char line[512];
    assert_non_null(said);
    while (fgets(line, sizeof(line), said) != NULL) {
        const char *end = strstr(line, " records could not be written before the end");
        if (end == NULL)
            continue;
        while (end > line && end[-1] != ' ')
            end--;
        return strtol(end, NULL, 10);
    }
    return -1;
}

static long lines_in(int pipe)
{
    char bytes[4096];
    long count = 0;
    for (ssize_t n; (n = read(pipe, bytes, sizeof(bytes))) > 0;)
        for (ssize_t i = 0; i < n; i++)
            count += bytes[i] == '\n';
    return count;
}

static void closing_a_stuck_log_ends_and_says_how_much_is_missing(void **state)
{
    enum { RECORDS = 2000 };
    const struct place *place = *state;
    bool go;
    assert_int_equal(mkfifo(place->log, 0600), 0);
    autoclose int reader = open(place->log, O_RDONLY | O_NONBLOCK);
    struct audit *audit = open_audit(place->log, false, 0);
    const int old = divert_stderr(place->other);
    for (int i = 0; i < RECORDS; i++)
        submit(audit, "\"kind\":\"close\",\"id\":\"012345678901234567890123456789\"");
    /* The writer has noticed, and more comes. */
    assert_true(submit_and_wait(audit, "\"kind\":\"decision\"", &go));
    submit(audit, "\"kind\":\"close\"");
    audit_close(audit);
    dup2(old, STDERR_FILENO);
    close(old);
    assert_true(reader >= 0);
    assert_int_equal(lines_in(reader) + unwritten_as_said(place->other), RECORDS + 2);
}

static void nobody_is_told_after_muting(void **state)
{
    const struct place *place = *state;
    struct audit *audit = open_audit(place->log, true, 0);
    audit_mute(audit);
    assert_true(audit_submit(audit, STR("\"kind\":\"close\""), on_written, NULL, 1));
    audit_close(audit); /* on_written would fall over its NULL */
    json_t *records = json_array();
    read_log(place->log, records);
    assert_int_equal(json_array_size(records), 1);
    json_decref(records);
}

static void note_line(void *arg, struct str line)
{
    struct str *last = arg;
    free((void *)(uintptr_t)last->p);
    *last = (struct str){strndup(line.p, line.len), line.len};
}

static void an_observer_sees_whole_lines(void **state)
{
    (void)state;
    struct str last = STR_NULL;
    struct audit *audit = open_audit("none", true, 0);
    audit_observe(audit, note_line, &last);
    submit(audit, "\"kind\":\"close\"");
    while (audit_count(audit) == 0)
        sched_yield();
    audit_observe(audit, NULL, NULL);
    submit(audit, "\"kind\":\"detach\"");
    audit_close(audit);
    assert_non_null(last.p);
    assert_non_null(strstr(last.p, "\"kind\":\"close\"}\n"));
    free((void *)(uintptr_t)last.p);
}

/* A collector at the log's path. */
static int collect(const char *path, int type)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = 20};
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    unlink(path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static struct audit *open_socket_audit(const struct place *place, bool required, size_t queue)
{
    char path[128];
    snprintf(path, sizeof(path), "unix:%s", place->log);
    return open_audit(path, required, queue);
}

static long long received_seq(int fd)
{
    char text[1024];
    ssize_t len = recv(fd, text, sizeof(text), 0);
    assert_true(len > 0);
    json_t *record = json_loadb(text, (size_t)len, 0, NULL);
    assert_non_null(record);
    assert_int_not_equal(text[len - 1], '\n');
    long long seq = json_integer_value(json_object_get(record, "seq"));
    json_decref(record);
    return seq;
}

static void a_datagram_is_a_record(void **state)
{
    const struct place *place = *state;
    bool go = false;
    int collector = collect(place->log, SOCK_DGRAM);
    struct audit *audit = open_socket_audit(place, true, 0);
    assert_true(submit_and_wait(audit, "\"kind\":\"close\",\"id\":\"a\"", &go));
    assert_true(go);
    submit(audit, "\"kind\":\"close\",\"id\":\"b\"");
    assert_int_equal(received_seq(collector), 0);
    assert_int_equal(received_seq(collector), 1);

    /* It restarts: nobody waits for that, and what comes later arrives with its number. */
    close(collector);
    submit(audit, "\"kind\":\"close\",\"id\":\"c\"");
    while (audit_healthy(audit))
        sched_yield();
    assert_false(submit_and_wait(audit, "\"kind\":\"decision\"", &go));
    collector = collect(place->log, SOCK_DGRAM);
    assert_int_equal(received_seq(collector), 2);
    assert_int_equal(received_seq(collector), 3); /* the one that was refused, as lost */
    audit_close(audit);
    close(collector);
}

static void a_record_that_no_datagram_holds_is_lost_and_the_next_is_not(void **state)
{
    const struct place *place = *state;
    enum { TOO_LONG = 4 << 20 };
    bool go = true;
    int collector = collect(place->log, SOCK_DGRAM);
    struct audit *audit = open_socket_audit(place, true, 0);
    char *fields = malloc(TOO_LONG + 1);
    memset(fields, 'x', TOO_LONG);
    fields[TOO_LONG] = '\0';
    memcpy(fields, "\"a\":\"", 5);
    fields[TOO_LONG - 1] = '"';
    assert_true(submit_and_wait(audit, fields, &go));
    assert_false(go);
    assert_true(audit_healthy(audit));
    free(fields);
    assert_int_equal(received_seq(collector), 0);
    assert_true(submit_and_wait(audit, "\"kind\":\"close\"", &go));
    assert_true(go);
    assert_int_equal(audit_lost(audit), 1);
    audit_close(audit);
    close(collector);
}

static void a_stream_gets_whole_lines_from_each_connection(void **state)
{
    const struct place *place = *state;
    int listener = collect(place->log, SOCK_STREAM);
    struct audit *audit = open_socket_audit(place, false, 64 << 10);
    int first = accept(listener, NULL, NULL);
    /* One that does not read: what has room waits, the rest is counted, nobody is held up. */
    while (audit_waits(audit))
        (void)audit_submit(audit, STR("\"kind\":\"close\",\"id\":\"01J00000000000000000000000\""),
                           NULL, NULL, 0);
    const uint64_t lost = audit_lost(audit);
    while (audit_lost(audit) == lost)
        (void)audit_submit(audit, STR("\"kind\":\"close\""), NULL, NULL, 0);
    char byte;
    assert_int_equal(recv(first, &byte, 1, 0), 1);
    assert_int_equal(byte, '{');
    close(first);
    int second = accept(listener, NULL, NULL);
    assert_true(second >= 0);
    autofclose FILE *lines = fdopen(second, "r");
    char line[512];
    long long seq = -1;
    bool told = false;
    while (!told && fgets(line, sizeof(line), lines) != NULL) {
        json_t *record = json_loads(line, 0, NULL);
        assert_non_null(record);
        long long next = json_integer_value(json_object_get(record, "seq"));
        assert_true(seq < 0 || next == seq + 1);
        seq = next;
        told = strcmp(json_string_value(json_object_get(record, "kind")), "lost") == 0;
        json_decref(record);
    }
    assert_true(told);
    audit_close(audit);
    close(listener);
}

static void a_collector_that_is_not_there_is_refused_at_the_start(void **state)
{
    const struct place *place = *state;
    struct srt_err err;
    char path[128];
    snprintf(path, sizeof(path), "unix:%s", place->log);
    struct audit_config config = {.path = path, .required = true};
    assert_null(audit_open(&config, &err));
    assert_non_null(strstr(err.text, path));
}

static void in_the_squid_format_readers_get_json(void **state)
{
    const struct place *place = *state;
    struct srt_err err;
    struct audit_config config = {.path = place->log, .required = true, .squid = true};
    struct audit *audit = audit_open(&config, &err);
    assert_non_null(audit);
    assert_true(audit_wants_squid(audit));
    submit(audit, "\"kind\":\"reload\"");
    assert_true(
        audit_submit_request(audit, STR("\"kind\":\"close\""), STR("     7 - X\n"), NULL, NULL, 0));
    audit_close(audit);
    char line[256];
    autofclose FILE *file = fopen(place->log, "r");
    assert_non_null(fgets(line, sizeof(line), file));
    assert_string_equal(strchr(line, ' '), "      7 - X\n");
    assert_null(fgets(line, sizeof(line), file));
}

/* Five requests whose records wait behind half a line that a stopped reader's pipe has of a sixth.
 */
static void behind_half_a_line(const struct place *place, bool required)
{
    enum { WAITERS = 5, LONG = 3000, BEFORE = 2 };
    struct srt_err err;
    struct audit_config config = {
        .path = place->log, .required = required, .squid = true, .queue_bytes = 32 << 10};
    assert_int_equal(mkfifo(place->log, 0600), 0);
    autoclose int reader = open(place->log, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_true(fcntl(reader, F_SETPIPE_SZ, 4096) >= 4096);
    struct audit *audit = audit_open(&config, &err);
    assert_non_null(audit);
    struct str last = STR_NULL;
    audit_observe(audit, note_line, &last);

    char line[LONG];
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\n';
    struct waiter torn, waiters[WAITERS];
    sem_init(&torn.told, 0, 0);
    for (int i = 0; i < BEFORE; i++)
        assert_true(audit_submit_request(audit, STR("\"kind\":\"close\""),
                                         (struct str){line, sizeof(line)},
                                         i == 1 ? on_written : NULL, &torn, 1));
    for (size_t i = 0; i < WAITERS; i++) {
        sem_init(&waiters[i].told, 0, 0);
        assert_true(audit_submit_request(audit, STR("\"kind\":\"decision\""), STR_NULL, on_written,
                                         &waiters[i], 1));
    }
    audit_wake(audit);

    /* Nobody waits for the reader, whose line it may be. */
    while (sem_wait(&torn.told) != 0)
        ;
    assert_int_equal(torn.go, !required);
    for (size_t i = 0; i < WAITERS; i++) {
        while (sem_wait(&waiters[i].told) != 0)
            ;
        assert_int_equal(waiters[i].go, !required);
    }

    /* It comes back: every line is whole, and there is room for the smallest record and for one
     * that nearly fills the queue. */
    char buffer[8192];
    size_t read_bytes = 0, newlines = 0;
    const uint64_t written = BEFORE + (required ? 1 : WAITERS); /* 1: of what was lost */
    while (audit_count(audit) < written || newlines < BEFORE + (size_t)required) {
        ssize_t n = read(reader, buffer, sizeof(buffer));
        for (ssize_t i = 0; i < n; i++)
            newlines += buffer[i] == '\n';
        read_bytes += n > 0 ? (size_t)n : 0;
    }
    assert_true(read_bytes >= BEFORE * sizeof(line));
    assert_int_equal(audit_lost(audit), required ? WAITERS : 0);
    submit(audit, "\"kind\":\"close\"");
    while (audit_count(audit) < written + 1)
        sched_yield();
    char fields[31 << 10];
    memset(fields, ' ', sizeof(fields));
    memcpy(fields, "\"kind\":\"close\"", 14);
    assert_true(audit_submit(audit, (struct str){fields, sizeof(fields)}, NULL, NULL, 0));
    audit_observe(audit, NULL, NULL);
    audit_close(audit);
    free((void *)(uintptr_t)last.p);
}

static void what_waits_behind_half_a_line_is_refused_and_forgotten(void **state)
{
    behind_half_a_line(*state, true);
}

static void what_waits_behind_half_a_line_goes_on_where_the_log_is_not_required(void **state)
{
    behind_half_a_line(*state, false);
}

static void two_that_write_one_log_count_as_one(void **state)
{
    enum { ROUNDS = 2000 };
    const struct place *place = *state;
    struct srt_err err;
    struct audit *first = open_audit(place->log, true, 0);
    struct audit_config config = {.path = place->log, .required = true};
    config.numbering_fd = dup(audit_numbering_fd(first));
    struct audit *second = audit_open(&config, &err);
    assert_non_null(second);
    for (int i = 0; i < ROUNDS; i++) {
        submit(first, "\"kind\":\"close\",\"by\":\"first\"");
        submit(second, "\"kind\":\"close\",\"by\":\"second\"");
        if (i == ROUNDS / 2)
            audit_reopen(second);
    }
    audit_close(first);
    submit(second, "\"kind\":\"close\",\"by\":\"second\"");
    audit_close(second);

    json_t *records = json_array();
    read_log(place->log, records);
    assert_int_equal(json_array_size(records), 2 * ROUNDS + 1);
    numbers_have_no_gaps(records);
    json_decref(records);
}

/* The writer has to notice that it was asked, and then to sleep as this thread does. */
static void whoever_reopens_nothing_is_not_kept_busy(void **state)
{
    (void)state;
    enum { SLEEP_MS = 200 };
    static const char *const logs[] = {"none", "stderr"};
    for (size_t i = 0; i < 2; i++) {
        struct timespec before, after;
        struct audit *audit = open_audit(logs[i], true, 0);
        audit_reopen(audit);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
        poll(NULL, 0, SLEEP_MS);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
        audit_close(audit);
        const long spent_ms =
            (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
        assert_in_range(spent_ms, 0, SLEEP_MS / 10);
    }
}

static void a_number_that_is_no_counter_is_refused(void **state)
{
    const struct place *place = *state;
    struct srt_err err;
    struct audit_config config = {.path = place->log, .required = true};
    config.numbering_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_null(audit_open(&config, &err));
    assert_non_null(strstr(err.text, "counter"));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_place, drop_place)

int main(void)
{
    signal(SIGXFSZ, SIG_IGN);
    const struct CMUnitTest tests[] = {
        CASE(a_datagram_is_a_record),
        CASE(a_record_that_no_datagram_holds_is_lost_and_the_next_is_not),
        CASE(a_stream_gets_whole_lines_from_each_connection),
        CASE(a_collector_that_is_not_there_is_refused_at_the_start),
        CASE(in_the_squid_format_readers_get_json),
        CASE(a_record_is_one_line_with_time_and_number),
        CASE(a_missing_directory_is_refused),
        CASE(none_takes_everything_and_nobody_waits),
        CASE(half_a_line_of_a_killed_process_stays_alone),
        CASE(rotation_under_load_loses_and_doubles_nothing),
        CASE(a_deleted_log_begins_anew_without_being_asked),
        CASE(a_full_disk_refuses_and_recovers_when_required),
        CASE(a_full_disk_stops_nobody_when_not_required),
        CASE(a_reader_that_stopped_stalls_nobody),
        CASE(closing_a_stuck_log_ends_and_says_how_much_is_missing),
        CASE(nobody_is_told_after_muting),
        CASE(an_observer_sees_whole_lines),
        CASE(what_waits_behind_half_a_line_is_refused_and_forgotten),
        CASE(what_waits_behind_half_a_line_goes_on_where_the_log_is_not_required),
        CASE(two_that_write_one_log_count_as_one),
        CASE(a_number_that_is_no_counter_is_refused),
        CASE(whoever_reopens_nothing_is_not_kept_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
