/* Compiled as strict C99: the header is plain C. Prints the layout that the compiler gives the structs, for
 * layout_test.py to compare, and makes every call on handles that are none: each must fail by its own rules.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "capi/dfkv_c_api.h"

#define FIELD(type, name)                                                      \
  printf("%s %s %lu %lu\n", #type, #name, (unsigned long)offsetof(type, name), \
         (unsigned long)sizeof(((type*)0)->name))
#define SIZE(type) printf("%s . 0 %lu\n", #type, (unsigned long)sizeof(type))

static void print_v2(void) {
  SIZE(dfkv_client_options_v2);
  FIELD(dfkv_client_options_v2, struct_size);
  FIELD(dfkv_client_options_v2, abi_version);
  FIELD(dfkv_client_options_v2, members);
  FIELD(dfkv_client_options_v2, key_namespace);
  FIELD(dfkv_client_options_v2, key_namespace_len);
  FIELD(dfkv_client_options_v2, batch_concurrency);
  FIELD(dfkv_client_options_v2, mds_endpoints);
  FIELD(dfkv_client_options_v2, mds_group);
  FIELD(dfkv_client_options_v2, mds_poll_ms);
  FIELD(dfkv_client_options_v2, flags);
  FIELD(dfkv_client_options_v2, client_id);
  FIELD(dfkv_client_options_v2, client_info);
  FIELD(dfkv_client_options_v2, client_heartbeat_ms);
  FIELD(dfkv_client_options_v2, reserved0);
}

static void print_v3(void) {
  SIZE(dfkv_open_options3);
  FIELD(dfkv_open_options3, struct_size);
  FIELD(dfkv_open_options3, flags);
  FIELD(dfkv_open_options3, members);
  FIELD(dfkv_open_options3, key_namespace);
  FIELD(dfkv_open_options3, key_namespace_len);
  FIELD(dfkv_open_options3, min_rate_bytes);
  FIELD(dfkv_open_options3, stall_ms);
  FIELD(dfkv_open_options3, connect_ms);
  FIELD(dfkv_open_options3, calls_max);
  FIELD(dfkv_open_options3, idle_ms);
  FIELD(dfkv_open_options3, peer_cooldown_ms);
  FIELD(dfkv_open_options3, peer_cooldown_max_ms);
  FIELD(dfkv_open_options3, spin_us);
  FIELD(dfkv_open_options3, reserved0);
  SIZE(dfkv_call_options3);
  FIELD(dfkv_call_options3, struct_size);
  FIELD(dfkv_call_options3, flags);
  FIELD(dfkv_call_options3, deadline_ms);
  FIELD(dfkv_call_options3, reserved0);
  SIZE(dfkv_buffer3);
  FIELD(dfkv_buffer3, ptr);
  FIELD(dfkv_buffer3, len);
  SIZE(dfkv_key3);
  FIELD(dfkv_key3, key);
  FIELD(dfkv_key3, key_len);
  SIZE(dfkv_put_item3);
  FIELD(dfkv_put_item3, key);
  FIELD(dfkv_put_item3, key_len);
  FIELD(dfkv_put_item3, buffers);
  FIELD(dfkv_put_item3, num_buffers);
  FIELD(dfkv_put_item3, depth);
  SIZE(dfkv_get_item3);
  FIELD(dfkv_get_item3, key);
  FIELD(dfkv_get_item3, key_len);
  FIELD(dfkv_get_item3, buffers);
  FIELD(dfkv_get_item3, num_buffers);
  FIELD(dfkv_get_item3, flags);
  FIELD(dfkv_get_item3, offset);
  SIZE(dfkv_result3);
  FIELD(dfkv_result3, code);
  FIELD(dfkv_result3, reserved0);
  FIELD(dfkv_result3, length);
}

static void print_async(void) {
  SIZE(dfkv_queue_options3);
  FIELD(dfkv_queue_options3, struct_size);
  FIELD(dfkv_queue_options3, flags);
  FIELD(dfkv_queue_options3, batches_max);
  FIELD(dfkv_queue_options3, reserved0);
  SIZE(dfkv_submit_options3);
  FIELD(dfkv_submit_options3, struct_size);
  FIELD(dfkv_submit_options3, flags);
  FIELD(dfkv_submit_options3, deadline_ms);
  FIELD(dfkv_submit_options3, reserved0);
  FIELD(dfkv_submit_options3, user_data);
  SIZE(dfkv_completion3);
  FIELD(dfkv_completion3, ticket);
  FIELD(dfkv_completion3, user_data);
  FIELD(dfkv_completion3, code);
  FIELD(dfkv_completion3, reserved0);
  FIELD(dfkv_completion3, count);
}

static int failures = 0;
static void expect(int good, const char* what) {
  if (good) return;
  ++failures;
  fprintf(stderr, "failed: %s\n", what);
}

static void call_on(dfkv_client_t none) {
  const void* keys[1] = {"k"};
  const uint64_t lens[1] = {1};
  char byte = 0;
  void* to[1];
  const void* from[1];
  int out[1] = {7};
  uint64_t len[1] = {7};
  dfkv_key3 key3 = {"k", 1};
  dfkv_result3 result3;
  to[0] = &byte;
  from[0] = &byte;
  expect(dfkv_put(none, "k", 1, "v", 1) == -1, "put");
  expect(dfkv_get(none, "k", 1, &byte, 1) == 0, "get");
  expect(dfkv_get_auto(none, "k", 1, &byte, 1, len) == 0 && len[0] == 0, "get_auto");
  expect(dfkv_exist(none, "k", 1) == 0, "exist");
  expect(dfkv_remove(none, "k", 1) == 0, "remove");
  expect(dfkv_register_memory(none, &byte, 1) == -1, "register_memory");
  expect(dfkv_max_sg_segs(none) == 0, "max_sg_segs");
  expect(strcmp(dfkv_transport_mode(none), "") == 0, "transport_mode");
  expect(dfkv_batch_put(none, keys, lens, from, lens, 1, out) == -1 && out[0] == 0, "batch_put");
  out[0] = 7;
  expect(dfkv_batch_get(none, keys, lens, to, lens, 1, out) == -1 && out[0] == 0, "batch_get");
  len[0] = out[0] = 7;
  expect(dfkv_batch_get_auto(none, keys, lens, to, lens, 1, out, len) == -1 && out[0] == 0 && len[0] == 0,
         "batch_get_auto");
  expect(dfkv_batch_exist(none, keys, lens, 1, out) == -1, "batch_exist");
  expect(dfkv_batch_remove(none, keys, lens, 1, out) == -1, "batch_remove");
  expect(dfkv_batch_put_sg(none, keys, lens, NULL, NULL, NULL, 1, out) == -1, "batch_put_sg");
  expect(dfkv_batch_get_auto_sg(none, keys, lens, NULL, NULL, NULL, 1, out, len) == -1, "batch_get_auto_sg");
  expect(dfkv_stats_snapshot(none, NULL, 0) == 0, "stats_snapshot");
  expect(dfkv_put3(none, "k", 1, "v", 1, 0, NULL) == DFKV_INVALID, "put3");
  expect(dfkv_get3(none, "k", 1, &byte, 1, len, NULL) == DFKV_INVALID, "get3");
  expect(dfkv_get_range3(none, "k", 1, 0, &byte, 1, len, NULL) == DFKV_INVALID, "get_range3");
  expect(dfkv_exist3(none, "k", 1, NULL) == DFKV_INVALID, "exist3");
  expect(dfkv_remove3(none, "k", 1, NULL) == DFKV_INVALID, "remove3");
  expect(dfkv_lookup3(none, "k", 1, len, NULL) == DFKV_INVALID, "lookup3");
  expect(dfkv_match3(none, &key3, 1, len, NULL) == DFKV_INVALID, "match3");
  expect(dfkv_batch_put3(none, NULL, 0, NULL, NULL) == DFKV_INVALID, "batch_put3");
  expect(dfkv_batch_get3(none, NULL, 0, NULL, NULL) == DFKV_INVALID, "batch_get3");
  expect(dfkv_batch_exist3(none, &key3, 1, &result3, NULL) == DFKV_INVALID, "batch_exist3");
  expect(dfkv_batch_remove3(none, &key3, 1, &result3, NULL) == DFKV_INVALID, "batch_remove3");
  expect(dfkv_batch_lookup3(none, &key3, 1, &result3, NULL) == DFKV_INVALID, "batch_lookup3");
  expect(dfkv_node_stats3(none, "a", NULL, 0, len, NULL) == DFKV_INVALID, "node_stats3");
  expect(strlen(dfkv_last_error()) > 0, "last_error");
  dfkv_close(none);
}

static void call_queue_on(dfkv_queue3_t none) {
  uint64_t number[1] = {7};
  dfkv_key3 key3 = {"k", 1};
  dfkv_result3 result3;
  dfkv_completion3 done;
  dfkv_queue3_t queue = none;
  expect(dfkv_queue_open3(none, NULL, &queue) == DFKV_INVALID && queue == NULL, "queue_open3");
  expect(dfkv_queue_fd3(none) == -1, "queue_fd3");
  expect(dfkv_submit_put3(none, NULL, 0, NULL, NULL, NULL) == DFKV_INVALID, "submit_put3");
  expect(dfkv_submit_get3(none, NULL, 0, NULL, NULL, NULL) == DFKV_INVALID, "submit_get3");
  expect(dfkv_submit_exist3(none, &key3, 1, &result3, NULL, number) == DFKV_INVALID, "submit_exist3");
  expect(dfkv_submit_remove3(none, &key3, 1, &result3, NULL, number) == DFKV_INVALID, "submit_remove3");
  expect(dfkv_submit_lookup3(none, &key3, 1, &result3, NULL, number) == DFKV_INVALID, "submit_lookup3");
  expect(dfkv_submit_match3(none, &key3, 1, NULL, number) == DFKV_INVALID, "submit_match3");
  expect(dfkv_cancel3(none, 1) == DFKV_INVALID, "cancel3");
  expect(dfkv_collect3(none, &done, 1, 0, number) == DFKV_INVALID && number[0] == 0, "collect3");
  dfkv_queue_close3(none);
}

int main(void) {
  dfkv_client_options_v2 options;
  dfkv_client_t client;
  print_v2();
  print_v3();
  print_async();
  call_on(NULL);
  call_queue_on(NULL);
  call_on((dfkv_client_t)&options);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.abi_version = DFKV_CLIENT_ABI_VERSION_V2;
  options.key_namespace = "c99";
  options.key_namespace_len = 3;
  client = dfkv_open_v2(&options);
  expect(client != NULL, "open_v2");
  expect(dfkv_max_sg_segs(client) == 29, "max_sg_segs of a handle");
  expect(dfkv_exist(client, "k", 1) == 0, "exist without members");
  dfkv_close(client);
  call_on(client);
  call_queue_on(client);
  return failures == 0 ? 0 : 1;
}
