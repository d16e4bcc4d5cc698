/* list_partition_reassignments.c - ListPartitionReassignments (46): a broker alone never moves a
 * replica, so none is under way. */
#include "api/api_int.h"

#include "wire/gen/list_partition_reassignments_request.h"
#include "wire/gen/list_partition_reassignments_response.h"

enum net_verdict api_list_partition_reassignments(struct api_call *call)
{
    struct list_partition_reassignments_request q;
    struct list_partition_reassignments_response m;
    if (!API_DECODE(call, list_partition_reassignments_request, &q)) { return NET_CLOSE; }
    list_partition_reassignments_response_init(&m);
    return API_ANSWER(call, list_partition_reassignments_response, &m);
}
