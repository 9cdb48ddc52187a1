#include "control/gateway.h"

#include "control/addresses.h"
#include "control/admin.h"
#include "control/notify.h"
#include "record/log.h"
#include "srt/cleanup.h"
#include "srt/must.h"

struct snapshot *gateway_load(const char *path, size_t *warnings)
{
    struct faults faults = {0};
    struct snapshot *snapshot = snapshot_load(path, &faults);
    faults_print(&faults, stderr);
    if (warnings != NULL)
        *warnings = faults.count - faults.errors;
    faults_free(&faults);
    return snapshot;
}

void gateway_record(struct gateway *gateway, struct json *fields)
{
    (void)audit_submit(gateway->audit, (struct str){fields->data, fields->len}, NULL, NULL, 0);
    json_free(fields);
}

struct guard_host *gateway_make_host(const struct gateway *gateway,
                                     const struct gateway_config *config,
                                     struct listener *const *listeners)
{
    size_t addr_count = 0, own_count = 0, count = config->listen_count;
    size_t admin_count = gateway->snapshot->config->admin_count;
    const struct addr *addrs = addresses_list(gateway->addresses, &addr_count);
    autofree struct config_address *own = must(calloc(count + admin_count + 1, sizeof(*own)));
    for (size_t i = 0; i < count; i++) {
        const struct config_address *bound =
            listeners[i] != NULL ? listener_bound(listeners[i]) : &config->listens[i].address;
        if (bound->path == NULL)
            own[own_count++] = *bound;
    }
    own_count += admin_addresses(gateway->admin, own + own_count, admin_count);
    return snapshot_make_host(addrs, addr_count, own, own_count);
}

void gateway_stop(struct gateway *gateway)
{
    ev_break(gateway->loop, EVBREAK_ALL);
}

static void on_drain_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    log_line("drain-timeout is over: what is open is cut");
    gateway_stop(timer->data);
}

static void on_drained(void *arg)
{
    gateway_stop(arg);
}

void gateway_drain(struct gateway *gateway)
{
    if (gateway->draining)
        return;
    gateway->draining = true;
    if (!gateway->retired)
        notify_stopping();
    log_line("draining: new requests are refused, open tunnels may end");
    ev_timer_init(&gateway->drain_deadline, on_drain_deadline,
                  (double)gateway->snapshot->config->drain_timeout_ms / 1000., 0.);
    gateway->drain_deadline.data = gateway;
    ev_timer_start(gateway->loop, &gateway->drain_deadline);
    workers_drain(gateway->workers, on_drained, gateway);
}
