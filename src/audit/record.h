// What the host writes about one act, and its canonical text: the bytes that the chain hashes. The
// text is JSON with fixed members in a fixed order, so that a record has one text only. Values and
// pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/actor.h"
#include "core/clock.h"
#include "core/ids.h"

namespace firebreak::audit {

struct Record {
  std::uint64_t n = 0;  // from 1, without gaps, per tenant
  core::Time at{};      // never before the record in front of it
  core::TenantId tenant;
  std::string act;      // "microvm.launch", "exec", "file.read", "key.revoke", ...
  std::string outcome;  // "done", "allowed", "refused"
  core::Actor by;
  core::MicrovmId microvm;
  std::string image;        // name and version
  std::string digest;       // of what the image's snapshot is
  std::string engine;       // that runs it
  std::string isolation;    // its class
  std::string subject;      // what it was done to: a path, a key's id, a policy's name
  std::string detail;       // hashes, reasons; never content
  std::uint64_t count = 1;  // of acts that are recorded together
  friend bool operator==(const Record&, const Record&) = default;
};

// Longer texts are cut: a record is bounded, whoever chose the words.
inline constexpr std::size_t kMostText = 1024;
inline constexpr std::size_t kMostLine = 64UL * 1024;

// As it may be written: texts cut at a character, and what is no UTF-8 replaced.
Record bounded(Record record);
void append_canonical(std::string& out, const Record& record);
std::string canonical(const Record& record);
// Reads a canonical text from the beginning of `text` and takes it away. nullopt: it is none.
std::optional<Record> take_canonical(std::string_view& text);
// "..." with quotes and control characters escaped, in one way only.
void append_quoted(std::string& out, std::string_view text);

}  // namespace firebreak::audit
