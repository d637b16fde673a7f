// Identity: how a namespace and a key become the 128-bit object id and the tenant. FROZEN (byte-exact with
// the C ABI that existing connectors use).
#pragma once

#include <array>
#include <cstddef>

#include "base/bytes.h"
#include "base/ids.h"

namespace dfkv {

// Hashes the keys of one namespace. The namespace's own bytes are hashed once, at construction. Immutable:
// any number of threads may call Hash.
class KeyHasher {
 public:
  // `key_namespace` is copied; it may hold any bytes and must not be empty.
  explicit KeyHasher(ByteSpan key_namespace);

  // SHA-256("DFKVKEY2" || u64le(len(ns)) || ns || u64le(len(key)) || key), first 16 bytes.
  ObjectId Hash(ByteSpan key) const;

  // The first 8 bytes, big-endian, of SHA-256("DFKVTENANT1" || u64le(len(id)) || id), where id is the first
  // length-framed field of a canonical namespace, else the whole namespace.
  TenantHash tenant() const { return tenant_; }

  ObjectKey KeyOf(ByteSpan key) const { return {tenant_, Hash(key)}; }

 private:
  alignas(16) std::array<std::byte, 128> state_;  // the hash state after the namespace
  TenantHash tenant_;
};

// The tenant id within a namespace, as above (a view into `key_namespace`).
ByteSpan TenantIdOf(ByteSpan key_namespace);
TenantHash HashTenantId(ByteSpan tenant_id);

}  // namespace dfkv
