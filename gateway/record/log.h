/*
 * The gateway's own messages: one whole line on stderr each, `srt-gateway: ...`.
 *
 * Not for events of a request (record/audit.h). Thread: any; a line is one write. Control bytes of
 * quoted input are shown as `?`. Failure: none that anybody could act on.
 */
#ifndef RECORD_LOG_H
#define RECORD_LOG_H

__attribute__((format(printf, 1, 2))) void log_line(const char *format, ...);

#endif
