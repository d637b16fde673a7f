// The low-level SHA256_* calls are used because their state can be copied after the namespace and cost no
// lookup per key; OpenSSL 3 marks them deprecated in favour of EVP, which allocates per context.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/identity.h"

#include <openssl/sha.h>

#include <cstdio>
#include <new>

namespace dfkv {
namespace {

constexpr std::string_view kKeyDomain = "DFKVKEY2";           // FROZEN
constexpr std::string_view kTenantDomain = "DFKVTENANT1";     // FROZEN
constexpr std::string_view kNamespaceMagic{"DFKVNS\0\2", 8};  // FROZEN

static_assert(sizeof(SHA256_CTX) <= 128);

void Update(SHA256_CTX* context, ByteSpan bytes) {
  SHA256_Update(context, bytes.data(), bytes.size());
}

void UpdateLength(SHA256_CTX* context, uint64_t length) {
  SHA256_Update(context, &length, sizeof length);
}

uint64_t LoadBe64(const unsigned char* from) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | from[i];
  return value;
}

}  // namespace

ByteSpan TenantIdOf(ByteSpan key_namespace) {
  ByteReader reader(key_namespace);
  if (AsText(reader.ReadBytes(kNamespaceMagic.size())) != kNamespaceMagic) return key_namespace;
  const auto length = reader.Read<uint32_t>();
  ByteSpan id = reader.ReadBytes(length);
  return reader.ok() ? id : key_namespace;
}

TenantHash HashTenantId(ByteSpan tenant_id) {
  SHA256_CTX context;
  SHA256_Init(&context);
  Update(&context, AsBytes(kTenantDomain));
  UpdateLength(&context, tenant_id.size());
  Update(&context, tenant_id);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256_Final(digest, &context);
  return TenantHash(LoadBe64(digest));
}

KeyHasher::KeyHasher(ByteSpan key_namespace) : tenant_(HashTenantId(TenantIdOf(key_namespace))) {
  auto* context = new (state_.data()) SHA256_CTX;
  SHA256_Init(context);
  Update(context, AsBytes(kKeyDomain));
  UpdateLength(context, key_namespace.size());
  Update(context, key_namespace);
}

ObjectId KeyHasher::Hash(ByteSpan key) const {
  SHA256_CTX context;
  std::memcpy(&context, state_.data(), sizeof context);
  UpdateLength(&context, key.size());
  Update(&context, key);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256_Final(digest, &context);
  return {LoadBe64(digest), LoadBe64(digest + 8)};
}

std::string ObjectId::ToHex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hi),
                static_cast<unsigned long long>(lo));
  return text;
}

}  // namespace dfkv
