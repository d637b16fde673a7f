/* Asynchronous batches around poll(): stores some blocks, then reads them back with several batches in
 * flight, cancels one, and ends. `async MEMBERS`, as in `async n1=127.0.0.1:12000`; exit status 0 when every
 * byte came back. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dfkv_c_api.h"

#define BLOCKS 64
#define BATCH 8
#define BLOCK_BYTES 65536

struct batch {
  char keys[BATCH][16];
  dfkv_buffer3 buffers[BATCH];
  dfkv_result3 results[BATCH];
  unsigned char values[BATCH][BLOCK_BYTES];
};

static unsigned char byte_of(int block, int at) {
  return (unsigned char)(block * 31 + at * 7);
}

static void name_blocks(struct batch* batch, int first) {
  int i;
  for (i = 0; i < BATCH; ++i) {
    sprintf(batch->keys[i], "block-%d", first + i);
    batch->buffers[i].ptr = batch->values[i];
    batch->buffers[i].len = BLOCK_BYTES;
  }
}

/* The arrays of items are copied by the submit; values and results stay the library's until collected. */
static int submit_put(dfkv_queue3_t queue, struct batch* batch, int first) {
  dfkv_put_item3 items[BATCH];
  dfkv_submit_options3 options;
  int i, at;
  name_blocks(batch, first);
  for (i = 0; i < BATCH; ++i) {
    for (at = 0; at < BLOCK_BYTES; ++at) batch->values[i][at] = byte_of(first + i, at);
    items[i].key = batch->keys[i];
    items[i].key_len = strlen(batch->keys[i]);
    items[i].buffers = &batch->buffers[i];
    items[i].num_buffers = 1;
    items[i].depth = (uint32_t)(first + i);
  }
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.user_data = (uint64_t)first;
  return dfkv_submit_put3(queue, items, BATCH, batch->results, &options, NULL);
}

static int submit_get(dfkv_queue3_t queue, struct batch* batch, int first, uint64_t* ticket) {
  dfkv_get_item3 items[BATCH];
  dfkv_submit_options3 options;
  int i;
  name_blocks(batch, first);
  memset(items, 0, sizeof items);
  for (i = 0; i < BATCH; ++i) {
    items[i].key = batch->keys[i];
    items[i].key_len = strlen(batch->keys[i]);
    items[i].buffers = &batch->buffers[i];
    items[i].num_buffers = 1;
  }
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.deadline_ms = 10000;
  options.user_data = (uint64_t)first;
  return dfkv_submit_get3(queue, items, BATCH, batch->results, &options, ticket);
}

/* Waits with poll(), as an event loop would that has other descriptors, too. */
static int collect(dfkv_queue3_t queue, dfkv_completion3* done, uint64_t count_max) {
  struct pollfd wanted;
  uint64_t count = 0;
  wanted.fd = dfkv_queue_fd3(queue);
  wanted.events = POLLIN;
  if (poll(&wanted, 1, 30000) != 1) return 0;
  if (dfkv_collect3(queue, done, count_max, 0, &count) != DFKV_OK) return 0;
  return (int)count;
}

static int wrong_blocks(const struct batch* batch, int first) {
  int wrong = 0, i, at;
  for (i = 0; i < BATCH; ++i) {
    if (batch->results[i].code != DFKV_OK || batch->results[i].length != BLOCK_BYTES) {
      fprintf(stderr, "block %d: %s\n", first + i, dfkv_code_name3(batch->results[i].code));
      ++wrong;
      continue;
    }
    for (at = 0; at < BLOCK_BYTES && batch->values[i][at] == byte_of(first + i, at); ++at) {
    }
    wrong += at != BLOCK_BYTES;
  }
  return wrong;
}

/* Puts all blocks, then gets all, a batch for each BATCH blocks, all in flight at once. */
static int run(dfkv_queue3_t queue, struct batch* batches) {
  dfkv_completion3 done[4];
  uint64_t ticket = 0;
  int phase, first, left, count, i, wrong = 0;
  for (phase = 0; phase < 2; ++phase) {
    for (first = 0; first < BLOCKS; first += BATCH) {
      struct batch* batch = &batches[first / BATCH];
      const int code =
          phase == 0 ? submit_put(queue, batch, first) : submit_get(queue, batch, first, &ticket);
      if (code != DFKV_OK) {
        fprintf(stderr, "%s\n", dfkv_last_error());
        return 1;
      }
    }
    for (left = BLOCKS / BATCH; left > 0; left -= count) {
      count = collect(queue, done, 4);
      if (count == 0) return 1;
      for (i = 0; i < count; ++i) {
        first = (int)done[i].user_data;
        if (done[i].code != DFKV_OK || done[i].count != BATCH) ++wrong;
        if (phase == 1) wrong += wrong_blocks(&batches[first / BATCH], first);
      }
    }
  }
  /* Cancelled or not, it completes, and until then the memory is in use. */
  if (submit_get(queue, &batches[0], 0, &ticket) != DFKV_OK) return 1;
  dfkv_cancel3(queue, ticket);
  if (collect(queue, done, 1) != 1 || done[0].ticket != ticket) return 1;
  printf("%d blocks, %d wrong; the last batch came back as %s\n", BLOCKS, wrong,
         dfkv_code_name3(done[0].code));
  return wrong != 0;
}

int main(int argc, char** argv) {
  dfkv_open_options3 options;
  dfkv_client_t client;
  dfkv_queue3_t queue;
  struct batch* batches;
  int status = 1;
  if (argc != 2) {
    fprintf(stderr, "usage: %s MEMBERS\n", argv[0]);
    return 2;
  }
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.members = argv[1];
  options.key_namespace = "async-example";
  options.key_namespace_len = 13;
  if (dfkv_open3(&options, &client) != DFKV_OK) {
    fprintf(stderr, "%s\n", dfkv_last_error());
    return 2;
  }
  batches = calloc(BLOCKS / BATCH, sizeof *batches);
  if (batches != NULL && dfkv_queue_open3(client, NULL, &queue) == DFKV_OK) {
    status = run(queue, batches);
    dfkv_queue_close3(queue); /* from here on the memory is ours */
  }
  free(batches);
  dfkv_close(client);
  return status;
}
