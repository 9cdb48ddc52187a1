#include "launcher/syscalls.h"
#include "launcher/warden/answers.h"
#include "launcher/warden/judge.h"

#include <errno.h>
#include <stdio.h>

/* Never anything but an error: what no row speaks of has no business here. */
int64_t answer_refused(struct call *call)
{
    struct syscalls_refusal refusal;
    if (!syscalls_find_refusal(call->ward->law->syscalls, call->request->data.nr,
                               (const uint64_t *)call->request->data.args, &refusal))
        return -ENOSYS;
    struct warden_report message = {
        .kind = WARDEN_SYSCALL, .error = refusal.error, .unless = refusal.unless};
    snprintf(message.operation, sizeof(message.operation), "%s", refusal.name);
    snprintf(message.setting, sizeof(message.setting), "%s", refusal.reason);
    snprintf(message.path, sizeof(message.path), "%s", refusal.detail);
    judge_report_as(call, &message);
    return -refusal.error;
}
