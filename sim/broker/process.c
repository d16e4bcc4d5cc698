/* process.c - starting and stopping the broker of a simulated process. */
#include "process.h"

#include "base/check.h"
#include "base/mem.h"

static void drop_settings(struct config_set *statics)
{
    config_set_fini(statics);
    mem_free(statics);
}

struct config_set *process_settings(const struct process_setting *rows, size_t count)
{
    struct config_set *set = mem_new(struct config_set);
    CHECK(set);
    config_set_init(set);
    for (size_t i = 0; i < count; i++) {
        enum err e = config_set_put(set, slice_str(rows[i].key), slice_str(rows[i].value));
        CHECK(!e);
    }
    return set;
}

void process_start(struct process *p, struct sys *sys, struct config_set *statics)
{
    char message[BROKER_MESSAGE_SIZE] = "";
    struct broker *b;
    struct broker_options options = {.sys = sys, .logger = sys_logger(sys), .statics = statics};
    enum err e = broker_start(&options, &b, message);
    if (e) {
        log_error(sys_logger(sys), "sim", "cannot start: %s", message);
        CHECKF(message[0], "[FLT-1] a start that fails with %s says nothing", err_name(e));
        drop_settings(statics);
        p->has_failed_start = true;
        return;
    }
    p->statics = statics;
    p->broker = b;
}

void process_stop(struct process *p)
{
    broker_stop(p->broker, 1000);
    drop_settings(p->statics);
}
