/* The C API of dfkv, a distributed KV cache for LLM inference.
 *
 * Two sets of functions over one handle: the ABI v2 that existing connectors load, whose layouts and return
 * conventions are frozen, and beside it the functions whose names end in 3, which say why something failed,
 * take a deadline for each call, and find prefixes and ranges.
 *
 * Threads: one handle serves any number of threads; a call blocks its thread. Memory: what a call was given
 * is not used after it returned. A closed or invalid handle makes calls fail, it never crashes them; a call
 * in flight while its handle is closed runs to its end.
 *
 * fork(): connections, locks and the event loop's thread are the process's that opened them. In a child
 * process the handles of its parent are not open: calls on them fail, dfkv_last_error says why, and the
 * parent's are not disturbed. A child opens its own. (What it inherited it keeps, unused, until it ends or
 * calls exec.)
 *
 * Objects are immutable: a PUT of a present key answers ok and keeps the first value. A node that is dead or
 * silent costs a call at most its deadline, and then its objects are misses at once until it answers again.
 */
#ifndef DFKV_DFKV_C_API_H_
#define DFKV_DFKV_C_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* NOLINTBEGIN(readability-identifier-naming): C names, fixed by the ABI. */

typedef void* dfkv_client_t;

/* ---------------------------------------------------------------------------------------- ABI v2, frozen */

#define DFKV_CLIENT_ABI_VERSION_V2 2u
#define DFKV_CLIENT_OPT_REGISTER_WITH_MDS (1u << 0)

typedef struct dfkv_client_options_v2 {
  uint32_t struct_size; /* sizeof(dfkv_client_options_v2) or more */
  uint32_t abi_version; /* DFKV_CLIENT_ABI_VERSION_V2 */
  const char* members;  /* "name=ip:port,name2=ip:port2*weight"; NULL or "": no member, every call misses */
  const void* key_namespace;   /* required, any bytes */
  uint64_t key_namespace_len;  /* > 0 */
  uint64_t batch_concurrency;  /* accepted; a batch needs no threads */
  const char* mds_endpoints;   /* "ip:port,..."; this version refuses it: static members only */
  const char* mds_group;       /* NULL or "": "default"; A-Z a-z 0-9 . _ -, at most 128 */
  int32_t mds_poll_ms;         /* <= 0: 3000 */
  uint32_t flags;              /* DFKV_CLIENT_OPT_* */
  const char* client_id;       /* required with the REGISTER flag; charset as mds_group */
  const char* client_info;     /* "k=v,k=v" */
  int32_t client_heartbeat_ms; /* <= 0: 10000 */
  uint32_t reserved0;          /* 0 */
} dfkv_client_options_v2;

/* NULL when an option is invalid; dfkv_last_error says which. No connection is made yet. */
dfkv_client_t dfkv_open_v2(const dfkv_client_options_v2* options);

int dfkv_put(dfkv_client_t client, const void* key, uint64_t key_len, const void* ptr,
             uint64_t n); /* 0 ok, -1 failure; n == 0 fails */
int dfkv_get(dfkv_client_t client, const void* key, uint64_t key_len, void* ptr,
             uint64_t n); /* 1 hit, only when the stored length is n; 0 otherwise */
int dfkv_get_auto(dfkv_client_t client, const void* key, uint64_t key_len, void* ptr, uint64_t cap,
                  uint64_t* out_len);                                     /* 1 hit; stored > cap: 0 */
int dfkv_exist(dfkv_client_t client, const void* key, uint64_t key_len);  /* 1 or 0 */
int dfkv_remove(dfkv_client_t client, const void* key, uint64_t key_len); /* 1 removed or absent, 0 error */
int dfkv_register_memory(dfkv_client_t client, const void* base, uint64_t size); /* 0 ok, -1 failure */
uint32_t dfkv_max_sg_segs(dfkv_client_t client);       /* buffers of one scatter/gather item; 0 on NULL */
const char* dfkv_transport_mode(dfkv_client_t client); /* "tcp(rdma-not-requested)"; "" on NULL */

/* Batches: 0 when the call was made, -1 on a NULL handle, n < 0 or a missing array. The outputs are zeroed
 * first; out is 1 for each item that was stored, hit, present or removed. A bad item fails alone. */
int dfkv_batch_put(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens, const void** ptrs,
                   const uint64_t* sizes, int n, int* out_ok);
int dfkv_batch_get(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens, void** ptrs,
                   const uint64_t* sizes, int n, int* out_hit);
int dfkv_batch_get_auto(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens, void** ptrs,
                        const uint64_t* caps, int n, int* out_hit, uint64_t* out_len);
int dfkv_batch_exist(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens, int n,
                     int* out_exist);
int dfkv_batch_remove(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens, int n,
                      int* out_ok);
int dfkv_batch_put_sg(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens,
                      const void*** ptrs, const uint64_t** sizes, const int* num_bufs, int n, int* out_ok);
int dfkv_batch_get_auto_sg(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens,
                           void*** dsts, const uint64_t** caps, const int* num_dsts, int n, int* out_hit,
                           uint64_t* out_len);

/* The client's metrics as Prometheus text. Returns the length of the whole text without its NUL; (NULL, 0)
 * asks for it. What does not fit is cut; the text always ends in NUL. 0 on failure. */
uint64_t dfkv_stats_snapshot(dfkv_client_t client, char* buf, uint64_t cap);
const char* dfkv_version(void);
void dfkv_close(dfkv_client_t client); /* NULL and closed handles are ignored */

/* ------------------------------------------------------------------------- The functions with status codes
 */

/* What a call or an item came to. The numbers are frozen; new ones may be added. */
enum dfkv_code3 {
  DFKV_OK = 0,
  DFKV_NOT_FOUND = 1,    /* a miss */
  DFKV_BUSY = 2,         /* back-pressure: later it may work, nothing is broken */
  DFKV_TIMEOUT = 3,      /* the deadline passed */
  DFKV_CORRUPT = 4,      /* found, but the check failed: treat it as a miss */
  DFKV_TOO_SMALL = 5,    /* the buffer is smaller than the object; its length is told */
  DFKV_INVALID = 6,      /* a bad argument */
  DFKV_UNAVAILABLE = 7,  /* the node cannot be reached, or is avoided since it failed */
  DFKV_IO_ERROR = 8,     /* the node's disk, or this system, refused */
  DFKV_NO_SPACE = 9,     /* the node has no space and may evict nothing */
  DFKV_QUOTA = 10,       /* the tenant's quota is used up */
  DFKV_TOO_LARGE = 11,   /* larger than the largest object */
  DFKV_CANCELLED = 12,   /* withdrawn */
  DFKV_REJECTED = 13,    /* refused by admission */
  DFKV_UNSUPPORTED = 14, /* this version, or the node, does not know it */
  DFKV_LOCKED = 15,      /* held by somebody else */
  DFKV_DENIED = 16       /* not allowed */
};

/* Structs that start with struct_size may grow: a caller passes the size that it was compiled with, and
 * fields beyond it are at their defaults. A size that is too small for the first version's fields, an unknown
 * flag, or a field that this version does not know and that is not zero, is DFKV_INVALID. */

#define DFKV_OPEN3_NO_VERIFY (1u << 0) /* skip the check of values received */

typedef struct dfkv_open_options3 {
  uint32_t struct_size;
  uint32_t flags;             /* DFKV_OPEN3_* */
  const char* members;        /* as in v2, but required */
  const void* key_namespace;  /* required, any bytes */
  uint64_t key_namespace_len; /* > 0 */
  /* 0 in a field below: the environment's value, or the default in parentheses (docs/CLIENT.md). */
  uint64_t min_rate_bytes;   /* a second (64 MiB); a call's deadline is stall_ms + bytes / min_rate_bytes */
  uint32_t stall_ms;         /* (1000) a node that is silent for so long is avoided */
  uint32_t connect_ms;       /* (1000) */
  uint32_t calls_max;        /* (64) at once; more wait */
  uint32_t idle_ms;          /* (30000) an unused connection is closed */
  uint32_t peer_cooldown_ms; /* (2000) before the first probe of an avoided node; doubles */
  uint32_t peer_cooldown_max_ms; /* (30000) */
  uint32_t spin_us;              /* (0) busy-poll before sleeping */
  uint32_t reserved0;            /* 0 */
} dfkv_open_options3;

/* May be NULL wherever a call takes it. */
typedef struct dfkv_call_options3 {
  uint32_t struct_size;
  uint32_t flags;       /* none yet: 0 */
  uint32_t deadline_ms; /* 0: the default rule */
  uint32_t reserved0;   /* 0 */
} dfkv_call_options3;

typedef struct dfkv_buffer3 { /* laid out like struct iovec */
  void* ptr;
  uint64_t len;
} dfkv_buffer3;

typedef struct dfkv_key3 {
  const void* key;
  uint64_t key_len;
} dfkv_key3;

#define DFKV_DEPTH_UNKNOWN UINT32_MAX

typedef struct dfkv_put_item3 {
  const void* key;
  uint64_t key_len;
  const dfkv_buffer3* buffers; /* only read; the value is their concatenation */
  uint32_t num_buffers;
  uint32_t depth; /* position in the prefix chain, 0 first; a hint for eviction */
} dfkv_put_item3;

#define DFKV_GET3_EXACT (1u << 0) /* a hit only when the stored length is the buffers' total */
#define DFKV_GET3_RANGE (1u << 1) /* [offset, offset + total) of the object; fewer bytes at its end */

typedef struct dfkv_get_item3 {
  const void* key;
  uint64_t key_len;
  const dfkv_buffer3* buffers; /* filled in order */
  uint32_t num_buffers;
  uint32_t flags; /* DFKV_GET3_* */
  uint64_t offset;
} dfkv_get_item3;

typedef struct dfkv_result3 {
  int32_t code; /* enum dfkv_code3 */
  uint32_t reserved0;
  uint64_t
      length; /* GET, lookup: the stored length where known, also with TOO_SMALL; range: bytes received */
} dfkv_result3;

/* Every function below returns an enum dfkv_code3. Of a batch, the return value says whether the call was
 * made at all (DFKV_OK or DFKV_INVALID); the results say what became of the items. Outputs that cannot be
 * told are zero. */

int dfkv_open3(const dfkv_open_options3* options, dfkv_client_t* out_client);

int dfkv_put3(dfkv_client_t client, const void* key, uint64_t key_len, const void* value, uint64_t value_len,
              uint32_t depth, const dfkv_call_options3* options);
int dfkv_get3(dfkv_client_t client, const void* key, uint64_t key_len, void* buf, uint64_t cap,
              uint64_t* out_len, const dfkv_call_options3* options);
int dfkv_get_range3(dfkv_client_t client, const void* key, uint64_t key_len, uint64_t offset, void* buf,
                    uint64_t len, uint64_t* out_len, const dfkv_call_options3* options);
int dfkv_exist3(dfkv_client_t client, const void* key, uint64_t key_len, const dfkv_call_options3* options);
/* DFKV_NOT_FOUND: it was absent already. */
int dfkv_remove3(dfkv_client_t client, const void* key, uint64_t key_len, const dfkv_call_options3* options);
int dfkv_lookup3(dfkv_client_t client, const void* key, uint64_t key_len, uint64_t* out_len,
                 const dfkv_call_options3* options);
/* How many of the first keys are all present. One round trip to each node, whatever their number. A key whose
 * node cannot be reached, or does not answer in time, counts as absent. */
int dfkv_match3(dfkv_client_t client, const dfkv_key3* keys, uint64_t count, uint64_t* out_present,
                const dfkv_call_options3* options);

int dfkv_batch_put3(dfkv_client_t client, const dfkv_put_item3* items, uint64_t count, dfkv_result3* results,
                    const dfkv_call_options3* options);
int dfkv_batch_get3(dfkv_client_t client, const dfkv_get_item3* items, uint64_t count, dfkv_result3* results,
                    const dfkv_call_options3* options);
int dfkv_batch_exist3(dfkv_client_t client, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                      const dfkv_call_options3* options);
int dfkv_batch_remove3(dfkv_client_t client, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                       const dfkv_call_options3* options);
int dfkv_batch_lookup3(dfkv_client_t client, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                       const dfkv_call_options3* options);

/* The metrics of one node, by its member name, as dfkv_stats_snapshot gives those of the client: *out_len is
 * the length of the whole text, what does not fit is cut. */
int dfkv_node_stats3(dfkv_client_t client, const char* member, char* buf, uint64_t cap, uint64_t* out_len,
                     const dfkv_call_options3* options);

/* ------------------------------------------------------------------------------------ Asynchronous batches
 *
 * A batch is submitted to a queue and comes back from it, once, as a completion. One thread of the library,
 * an event loop that the client starts with its first queue, carries the batches of all its queues; it
 * receives no signals. What holds of the blocking calls holds here: one deadline for a batch, one code for an
 * item, avoided nodes, one bad item fails alone.
 *
 * Memory: keys and the arrays of items, keys and buffers are copied before a submit returns. What the buffers
 * point to, and the results, belong to the library until the batch's completion was collected, or the queue
 * was closed. Results are written before the completion can be collected, never later.
 *
 * Threads: any number may submit, cancel and collect on one queue. A completion goes to one of those that
 * collect. Several event loops in a process have a queue each.
 *
 * fork(): see the top of this file. */

typedef void* dfkv_queue3_t;

typedef struct dfkv_queue_options3 {
  uint32_t struct_size;
  uint32_t flags;       /* none yet: 0 */
  uint32_t batches_max; /* submitted and not collected; one more is DFKV_BUSY. 0: 256; at most 65536 */
  uint32_t reserved0;   /* 0 */
} dfkv_queue_options3;

/* May be NULL wherever a submit takes it. */
typedef struct dfkv_submit_options3 {
  uint32_t struct_size;
  uint32_t flags;       /* none yet: 0 */
  uint32_t deadline_ms; /* from now; 0: the default rule */
  uint32_t reserved0;   /* 0 */
  uint64_t user_data;   /* comes back with the completion */
} dfkv_submit_options3;

typedef struct dfkv_completion3 {
  uint64_t ticket;
  uint64_t user_data;
  int32_t code; /* of the batch. DFKV_OK: it was carried out, the results say how. DFKV_BUSY: its deadline
                   came before a connection was free. DFKV_CANCELLED: items that had not ended are
                   DFKV_CANCELLED, too */
  uint32_t reserved0;
  uint64_t count; /* items that ended DFKV_OK; of a match: how many of the first keys are all present */
} dfkv_completion3;

/* `options` may be NULL. The queue keeps its client alive, also when the client's handle is closed. */
int dfkv_queue_open3(dfkv_client_t client, const dfkv_queue_options3* options, dfkv_queue3_t* out_queue);
/* Readable while completions wait: for poll, epoll and event loops. Only to be waited on, never read or
 * closed; the number is void once the queue is closed. -1 when it is no open queue. */
int dfkv_queue_fd3(dfkv_queue3_t queue);

/* DFKV_OK: the batch will complete, and *out_ticket, where it is not NULL, names it (never 0). Otherwise
 * nothing was submitted: DFKV_BUSY past batches_max, DFKV_INVALID for a bad argument. */
int dfkv_submit_put3(dfkv_queue3_t queue, const dfkv_put_item3* items, uint64_t count, dfkv_result3* results,
                     const dfkv_submit_options3* options, uint64_t* out_ticket);
int dfkv_submit_get3(dfkv_queue3_t queue, const dfkv_get_item3* items, uint64_t count, dfkv_result3* results,
                     const dfkv_submit_options3* options, uint64_t* out_ticket);
int dfkv_submit_exist3(dfkv_queue3_t queue, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                       const dfkv_submit_options3* options, uint64_t* out_ticket);
int dfkv_submit_remove3(dfkv_queue3_t queue, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                        const dfkv_submit_options3* options, uint64_t* out_ticket);
int dfkv_submit_lookup3(dfkv_queue3_t queue, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                        const dfkv_submit_options3* options, uint64_t* out_ticket);
/* The completion's count is the answer. */
int dfkv_submit_match3(dfkv_queue3_t queue, const dfkv_key3* keys, uint64_t count,
                       const dfkv_submit_options3* options, uint64_t* out_ticket);

/* Asks for an early end. The batch completes in any case, and soon: as DFKV_CANCELLED, or as it had ended.
 * What a cancelled PUT came to at the node is not known. A ticket that is over, or another queue's, is
 * ignored. DFKV_INVALID when it is no open queue. */
int dfkv_cancel3(dfkv_queue3_t queue, uint64_t ticket);

/* Takes up to `count_max` completions, the oldest first. When there are none it waits: wait_ms 0 not at all,
 * < 0 until there is one. DFKV_OK with *out_count 0 when none came; DFKV_INVALID when the queue is closed,
 * also while waiting. */
int dfkv_collect3(dfkv_queue3_t queue, dfkv_completion3* completions, uint64_t count_max, int32_t wait_ms,
                  uint64_t* out_count);

/* Cancels what is in flight; on return no memory that was submitted is in use, and completions that were not
 * collected are gone. NULL and closed queues are ignored. */
void dfkv_queue_close3(dfkv_queue3_t queue);

/* ------------------------------------------------------------------------------------------------- Errors
 */

/* Why this thread's last call of dfkv_open_v2 or of a function that ends in 3 failed as a whole; "" when it
 * did not fail, or missed. The text stays until the next such call. */
const char* dfkv_last_error(void);
/* "NotFound"; "Unknown" for a number outside the table. */
const char* dfkv_code_name3(int code);

/* NOLINTEND(readability-identifier-naming) */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* DFKV_DFKV_C_API_H_ */
