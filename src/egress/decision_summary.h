// What a microVM reached and tried to reach, added up by destination: bounded, kept across
// restarts, and what a policy is suggested from. Owned by a DecisionLog, or read from its
// directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "core/egress.h"
#include "egress/decision.h"

namespace firebreak::egress {

// A destination as its owner would name it: by name where one was resolved.
struct Destination {
  std::string host;           // name or address
  std::uint8_t protocol = 0;  // 0: a name that was only asked for
  std::uint16_t port = 0;
  friend auto operator<=>(const Destination&, const Destination&) = default;
};

struct DestinationTotals {
  std::uint64_t count = 0;  // connections, denied packets, denied questions
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_in = 0;
  core::Time first{};
  core::Time last{};
  friend bool operator==(const DestinationTotals&, const DestinationTotals&) = default;
};

class DecisionSummary {
 public:
  static constexpr std::size_t kMaxDestinations = 1000;  // allowed; as many denied
  static constexpr std::size_t kMaxDenials = 50;

  void add(const Decision& decision);
  // Decisions added so far are on disk, in records up to this one.
  void written(std::uint64_t last_number) { last_number_ = last_number; }
  // Events the kernel could not tell of, because nobody read them fast enough.
  void add_lost(std::uint64_t count) { lost_ += count; }

  std::uint64_t allowed() const { return allowed_count_; }
  std::uint64_t denied() const { return denied_count_; }
  std::uint64_t lost() const { return lost_; }
  // Something was let through to a destination beyond kMaxDestinations.
  bool unlisted() const { return unlisted_; }
  std::uint64_t last_number() const { return last_number_; }  // of the records in it
  const std::map<Destination, DestinationTotals>& reached() const { return reached_; }
  const std::map<Destination, DestinationTotals>& refused() const { return refused_; }
  const std::deque<Decision>& denials() const { return denials_; }  // the last ones, oldest first

  // For APIs and the guest: {allowed, denied, lost, unlisted, reached:[...], refused:[...],
  // denials:[...]}.
  json::object to_json() const;
  std::string to_text() const;  // to keep
  static Result<DecisionSummary> from_text(std::string_view text);

  // The smallest policy that would have let through what was let through: names with their ports
  // where a name was resolved, else single addresses. Code::exhausted when no policy can hold it,
  // or when more was reached than is known.
  Result<core::EgressPolicy> suggestion(std::string name) const;

 private:
  using Table = std::map<Destination, DestinationTotals>;
  void add_denial(Decision decision);
  // false: it is one too many.
  static bool count(Table& table, const Destination& to, const Decision& decision);

  std::uint64_t last_number_ = 0;
  std::uint64_t allowed_count_ = 0;
  std::uint64_t denied_count_ = 0;
  std::uint64_t lost_ = 0;
  bool unlisted_ = false;
  Table reached_;
  Table refused_;
  std::deque<Decision> denials_;
  std::deque<std::string> denial_keys_;  // merge_key of each
};

}  // namespace firebreak::egress
