/* init_producer_id.c - InitProducerId (22) for idempotent producers: a new id, or the next epoch of
 * a known one.
 *
 * Transactions do not exist yet: a transactional id is refused with
 * TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client treats as final and shows to its user
 * (a retriable code would make it wait for ever); an empty one with INVALID_REQUEST, as Kafka does.
 */
#include "api/api_int.h"
#include "api/producer_ids.h"

#include "wire/gen/init_producer_id_request.h"
#include "wire/gen/init_producer_id_response.h"

#define INIT_TIMEOUT_MS 30000

static enum net_verdict init_answer(const struct api_reply *reply, enum kafka_error error,
                                    int64_t id)
{
    struct init_producer_id_response m;
    struct wire_writer w;
    init_producer_id_response_init(&m);
    m.error_code = (int16_t)error;
    m.producer_id = error ? -1 : id;
    m.producer_epoch = error ? -1 : 0;
    api_answer_begin(reply, &w);
    enum err e = init_producer_id_response_encode(&w, reply->version, &m);
    return api_answer_end(reply, &w, e);
}

static enum net_verdict init_done(struct api *api, const struct api_reply *reply, void *ctx,
                                  const struct controller_mutation *mutations, size_t count,
                                  bool is_late)
{
    (void)ctx;
    (void)count;
    int64_t id = -1;
    if (is_late || mutations[0].result) {
        /* COORDINATOR_LOAD_IN_PROGRESS is what Kafka answers while no block can be had: clients try
         * again. */
        return init_answer(reply, KAFKA_COORDINATOR_LOAD_IN_PROGRESS, -1);
    }
    /* The first of the block is ours, so that this request cannot starve. */
    id = mutations[0].producer_id_first;
    producer_ids_add(api->producer_ids, id + 1, CONTROLLER_PRODUCER_IDS_COUNT - 1);
    return init_answer(reply, KAFKA_NONE, id);
}

enum net_verdict api_init_producer_id(struct api_call *call)
{
    struct init_producer_id_request q;
    if (!API_DECODE(call, init_producer_id_request, &q)) { return NET_CLOSE; }
    struct api_reply reply = api_reply_of(call);
    if (!slice_is_null(q.transactional_id)) {
        return init_answer(&reply,
                           q.transactional_id.size ? KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                                                   : KAFKA_INVALID_REQUEST,
                           -1);
    }
    if ((q.producer_id < 0) != (q.producer_epoch < 0)) {
        return init_answer(&reply, KAFKA_INVALID_REQUEST, -1);
    }
    /* An idempotent producer that asks with its old id gets a new one, as in Kafka: only
     * transactional ids keep theirs. */
    int64_t id;
    if (producer_ids_take(call->api->producer_ids, &id)) {
        return init_answer(&reply, KAFKA_NONE, id);
    }
    struct controller_mutation block = {.kind = CONTROLLER_PRODUCER_IDS};
    return api_submit(call, &(struct api_submit){.mutations = &block,
                                                 .count = 1,
                                                 .timeout_ms = INIT_TIMEOUT_MS,
                                                 .done = init_done});
}
