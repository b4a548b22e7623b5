// One egress decision as it is kept and shown: a name that was asked for, a connection or packet
// that was let through or not, a connection that ended. Value; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "core/clock.h"
#include "core/egress_decision.h"

namespace firebreak::egress {

struct Decision {
  enum class Kind {
    name,     // resolved, or refused
    connect,  // the first packet of a connection; a packet that was denied
    end,      // of a connection, with its bytes
    more      // `count` others, which are in the summary only: too many to write each
  };

  std::uint64_t number = 0;  // of the record, from 1, in the order they were written
  core::Time time{};         // of the first, when several were merged
  Kind kind = Kind::connect;
  bool allowed = false;
  std::string rule;  // "policy:3", "always:link-local"; empty: not known any more
  std::uint8_t protocol = 0;
  std::optional<core::IpAddress> address;
  std::uint16_t port = 0;
  std::string name;                        // asked for; or for which the address was given
  std::vector<core::IpAddress> addresses;  // of a name: the answer
  std::string reason;                      // when denied: a sentence
  std::uint64_t count = 1;                 // as many of the same within a second
  std::uint64_t bytes_out = 0;             // of connections that ended
  std::uint64_t bytes_in = 0;

  friend bool operator==(const Decision&, const Decision&) = default;
};

// Equal for decisions that are merged: number, time, count, bytes, answers and reason do not
// matter.
std::string merge_key(const Decision& decision);

// One line, without the line's end. Reading is strict enough for a file of ours that was cut.
std::string to_line(const Decision& decision);
json::object to_json(const Decision& decision);
std::optional<Decision> from_json(const json::object& object);
std::optional<Decision> from_line(std::string_view line);

std::string protocol_name(std::uint8_t protocol);  // "tcp", "udp", "icmp", or the number
std::uint8_t protocol_number(std::string_view name);

// Says why a packet was denied and what can be done; the guest and its user read it.
std::string explain(const core::EgressLabel& label);

}  // namespace firebreak::egress
