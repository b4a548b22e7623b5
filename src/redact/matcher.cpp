#include "redact/matcher.h"

#include <algorithm>
#include <deque>
#include <map>

namespace firebreak::redact {

// The trie while it grows; then its nodes in an order in which a node's edges stand together.
class Matcher::Builder {
 public:
  explicit Builder(Matcher& matcher) : matcher_(matcher) { children_.emplace_back(); }

  void add(std::uint32_t index, std::string_view bytes) {
    State node = kRoot;
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      const auto known = children_[node].find(byte);
      if (known != children_[node].end()) {
        node = known->second;
        continue;
      }
      const auto fresh = static_cast<State>(children_.size());
      children_[node].emplace(byte, fresh);
      children_.emplace_back();
      depth_.resize(children_.size());
      depth_[fresh] = depth_[node] + 1;
      node = fresh;
    }
    found_.resize(children_.size());
    // Of equal patterns the first one stays.
    if (found_[node] == 0) found_[node] = index + 1;
  }

  void finish() {
    depth_.resize(children_.size());
    found_.resize(children_.size());
    matcher_.nodes_.resize(children_.size());
    lay_out_edges();
    link_failures();
  }

 private:
  void lay_out_edges() {
    for (State node = 0; node < children_.size(); ++node) {
      Node& out = matcher_.nodes_[node];
      out.depth = depth_[node];
      out.found = found_[node];
      out.first_edge = static_cast<std::uint32_t>(matcher_.edge_bytes_.size());
      out.edges = static_cast<std::uint32_t>(children_[node].size());
      for (const auto& [byte, target] : children_[node]) {
        matcher_.edge_bytes_.push_back(byte);
        matcher_.edge_targets_.push_back(target);
      }
    }
    for (const auto& [byte, target] : children_[kRoot]) matcher_.root_edges_[byte] = target;
  }

  // Breadth first: a node fails to a node that is nearer to the root and done already.
  void link_failures() {
    std::deque<State> waiting;
    for (const auto& [byte, target] : children_[kRoot]) waiting.push_back(target);
    while (!waiting.empty()) {
      const State node = waiting.front();
      waiting.pop_front();
      for (const auto& [byte, child] : children_[node]) {
        Node& out = matcher_.nodes_[child];
        out.fail = matcher_.next(matcher_.nodes_[node].fail, byte);
        // A pattern that ends here is longer than any that ends at the failure's node.
        if (out.found == 0) out.found = matcher_.nodes_[out.fail].found;
        waiting.push_back(child);
      }
    }
  }

  Matcher& matcher_;
  std::vector<std::map<unsigned char, State>> children_;
  std::vector<std::uint32_t> depth_{0};
  std::vector<std::uint32_t> found_{0};
};

Matcher::State Matcher::edge(State node, unsigned char byte) const {
  const Node& at = nodes_[node];
  const unsigned char* const first = edge_bytes_.data() + at.first_edge;
  // Nearly every node has one edge; the few near the root have many.
  if (at.edges <= 4) {
    for (std::uint32_t i = 0; i < at.edges; ++i)
      if (first[i] == byte) return edge_targets_[at.first_edge + i];
    return kNoEdge;
  }
  const unsigned char* const found = std::lower_bound(first, first + at.edges, byte);
  if (found == first + at.edges || *found != byte) return kNoEdge;
  return edge_targets_[at.first_edge + static_cast<std::size_t>(found - first)];
}

Matcher::State Matcher::skip(std::string_view bytes, std::size_t& at) const {
  while (at + sizeof(std::uint32_t) <= bytes.size()) {
    if (!filter_[filter_at(bytes.data() + at)]) {
      ++at;
      continue;
    }
    State node = root_edges_[static_cast<unsigned char>(bytes[at])];
    for (std::size_t i = 1; node != kRoot && i < kFilterBytes; ++i)
      node = edge(node, static_cast<unsigned char>(bytes[at + i]));
    if (node != kRoot) {
      at += kFilterBytes;
      return node;
    }
    ++at;
  }
  State node = kRoot;
  for (; at < bytes.size(); ++at) node = next(node, static_cast<unsigned char>(bytes[at]));
  return node;
}

std::shared_ptr<const Matcher> Matcher::compile(PatternSet set) {
  auto matcher = std::make_shared<Matcher>();
  Builder builder(*matcher);
  for (std::uint32_t i = 0; i < set.patterns.size(); ++i) {
    Pattern& pattern = set.patterns[i];
    builder.add(i, pattern.bytes);
    std::array<char, sizeof(std::uint32_t)> first{};
    pattern.bytes.copy(first.data(), kFilterBytes);
    matcher->filter_.set(filter_at(first.data()));
    matcher->lengths_.push_back(static_cast<std::uint32_t>(pattern.bytes.size()));
    matcher->longest_ = std::max(matcher->longest_, pattern.bytes.size());
    pattern.bytes.clear();
    pattern.bytes.shrink_to_fit();
  }
  builder.finish();
  matcher->names_ = std::move(set.names);
  matcher->patterns_ = std::move(set.patterns);
  return matcher;
}

}  // namespace firebreak::redact
