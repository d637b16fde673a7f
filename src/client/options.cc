#include "client/options.h"

namespace dfkv::client {

void RegisterClientOptions(OptionSet* set, ClientOptions* options) {
  set->Group("Client");
  set->Add("client-stall-ms", &options->stall_ms,
           "A peer that moves no byte and answers no PING for this long is avoided; also the base of the "
           "default deadline.")
      .AtLeast(1);
  set->AddBytes("client-min-rate", &options->min_rate,
                "The default deadline allows for this many bytes a second.")
      .AtLeast(1);
  set->Add("client-connect-ms", &options->connect_ms, "Longest wait for a connection.").AtLeast(1);
  set->Add("client-spin-us", &options->spin_us,
           "Busy-poll up to this long before sleeping; saves a wake-up, costs a core.");
  set->Add("client-verify", &options->verify, "Check the CRC of every value received.");
  set->Add("tcp-pool-max-conns", &options->lanes_max,
           "Connections to each peer, which is calls at once; more wait.")
      .AtLeast(1)
      .Unit("connections");
  set->Add("tcp-pool-idle-ms", &options->idle_ms, "A connection unused for this long is closed.");
  set->Add("peer-cooldown-ms", &options->peer_cooldown_ms,
           "A peer that failed is avoided for this long, then probed; doubles with every failed probe.")
      .AtLeast(1);
  set->Add("peer-cooldown-max-ms", &options->peer_cooldown_max_ms, "Longest time between probes.").AtLeast(1);
}

}  // namespace dfkv::client
