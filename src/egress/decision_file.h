// The records of one microVM on disk: lines of JSON in two files that take turns, so that the
// newest are always there and the size is bounded; and the summary beside them. Blocking, short;
// the writer is one, readers are any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "egress/decision.h"
#include "egress/decision_summary.h"

namespace firebreak::egress {

class DecisionFile {
 public:
  static constexpr std::size_t kMaxBytes = 1 << 20;  // of each of the two

  explicit DecisionFile(std::string directory) : directory_(std::move(directory)) {}

  // Creates the directory; a half line that a crash left is taken off.
  Result<> open();
  // Whole lines. true: the files have changed places, so records are lost from the oldest end.
  Result<bool> append(std::string_view lines);
  Result<> keep(const DecisionSummary& summary);

  // All that is there, oldest first.
  std::vector<Decision> read() const;
  // The kept one, with the records that came after it.
  DecisionSummary read_summary() const;

 private:
  std::string current() const { return directory_ + "/decisions.jsonl"; }
  std::string older() const { return directory_ + "/decisions.old.jsonl"; }
  std::string kept() const { return directory_ + "/summary.json"; }

  std::string directory_;
};

// The newest `limit` of those not before `since`, oldest first. For any thread, also when the
// microVM is gone.
std::vector<Decision> recent_decisions(const std::string& directory, std::size_t limit,
                                       std::optional<core::Time> since);

}  // namespace firebreak::egress
