// The TCP transport of a node: one listener, connections dealt over the node's reactors.
#pragma once

#include <memory>
#include <vector>

#include "base/metric.h"
#include "io/reactor.h"
#include "net/tcp/options.h"
#include "net/transport.h"

namespace dfkv::net {

// The reactors run (each on its thread) from before StartBlocking until after StopBlocking; both are called
// from another thread. `handler` and `metrics` outlive the transport.
std::unique_ptr<Transport> MakeTcpTransport(const TcpOptions& options, std::vector<io::Reactor*> reactors,
                                            RequestHandler* handler, MetricRegistry& metrics);

}  // namespace dfkv::net
