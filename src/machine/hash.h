// SHA-256 for identity (snapshots, runtime files) on OpenSSL's EVP. Value-like; single thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

struct evp_md_ctx_st;

namespace firebreak::machine {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> data);
  void update(std::string_view text);
  std::string hex();  // once

 private:
  evp_md_ctx_st* context_;
};

// Of a whole file's content.
Result<std::string> sha256_file(const std::string& path);

}  // namespace firebreak::machine
