// Finds many byte strings in a stream, in time that grows with the stream alone: an Aho-Corasick
// automaton behind a filter of three-byte beginnings. Immutable after compile(), shared by streams,
// any thread. docs/adr/0042-own-matcher.md says why it is our own.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "redact/patterns.h"

namespace firebreak::redact {

class Matcher {
 public:
  // Where a stream is. A new stream begins at the root.
  using State = std::uint32_t;
  static constexpr State kRoot = 0;

  // The longest pattern that ends at one place; shorter ones that end there lie within it.
  struct Match {
    std::size_t end = 0;  // in the bytes of this scan, one past its last byte
    std::uint32_t length = 0;
    std::uint32_t name = 0;
    Meaning meaning = Meaning::secret;
  };

  // Patterns have at least kShortestPattern bytes.
  static std::shared_ptr<const Matcher> compile(PatternSet set);

  // Calls found(Match) for each place where a pattern ends, in their order.
  template <class Found>
  void scan(State& state, std::string_view bytes, Found found) const;

  // How many bytes before the place where the stream is may still become a match.
  std::size_t held(State state) const { return nodes_[state].depth; }
  const std::string& name(std::uint32_t index) const { return names_[index]; }
  std::size_t longest() const { return longest_; }

 private:
  struct Node {
    std::uint32_t depth = 0;
    State fail = kRoot;
    std::uint32_t first_edge = 0;  // of edge_bytes_ and edge_targets_, sorted by byte
    std::uint32_t edges = 0;
    std::uint32_t found = 0;  // 1 + index of the longest pattern that ends here; 0: none
  };
  class Builder;

  static constexpr std::size_t kFilterBits = 1UL << 18;
  static constexpr std::size_t kFilterBytes = 3;
  static_assert(kFilterBytes < kShortestPattern);
  static constexpr std::uint32_t kNoEdge = 0;  // nothing leads to the root but failing

  // A hash of the three bytes there; the fourth is read and not used.
  static std::size_t filter_at(const char* at) {
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, at, sizeof bytes);
    return ((bytes & 0xFFFFFFU) * 0x9E3779B1U) >> 14U;
  }
  // Moves `at` behind the first bytes of the next place where a pattern may begin; near the end,
  // where the filter sees too little, behind the last byte. The node for that place.
  State skip(std::string_view bytes, std::size_t& at) const;
  State edge(State node, unsigned char byte) const;
  State next(State node, unsigned char byte) const {
    for (;;) {
      if (node == kRoot) return root_edges_[byte];
      if (const State target = edge(node, byte); target != kNoEdge) return target;
      node = nodes_[node].fail;
    }
  }

  std::vector<std::string> names_;
  std::vector<Pattern> patterns_;  // without their bytes
  std::vector<std::uint32_t> lengths_;
  std::vector<Node> nodes_;
  std::vector<unsigned char> edge_bytes_;
  std::vector<State> edge_targets_;
  std::array<State, 256> root_edges_{};
  std::bitset<kFilterBits> filter_;
  std::size_t longest_ = 0;
};

template <class Found>
void Matcher::scan(State& state, std::string_view bytes, Found found) const {
  State node = state;
  std::size_t at = 0;
  for (;;) {
    // A pattern that is under way with fewer bytes than the filter knows is looked for again from
    // its first byte, by the filter; unless that byte came with an earlier call.
    if (const std::size_t begun = nodes_[node].depth; begun < kFilterBytes && begun <= at) {
      at -= begun;
      node = skip(bytes, at);
    }
    if (at == bytes.size()) break;
    node = next(node, static_cast<unsigned char>(bytes[at]));
    ++at;
    if (const std::uint32_t which = nodes_[node].found; which != 0) {
      const Pattern& pattern = patterns_[which - 1];
      found(Match{at, lengths_[which - 1], pattern.name, pattern.meaning});
    }
  }
  state = node;
}

}  // namespace firebreak::redact
