#include "egress/decision_file.h"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::egress {
namespace {

constexpr std::size_t kMostToRead = 2 * DecisionFile::kMaxBytes;
constexpr std::size_t kMaxSummary = 4UL << 20;

void read_into(const std::string& path, std::vector<Decision>& out) {
  const auto text = sys::read_file(path, kMostToRead);
  if (!text) return;
  for (const std::string_view line : split(*text, '\n'))
    if (auto decision = from_line(line)) out.push_back(*std::move(decision));
}

}  // namespace

Result<> DecisionFile::open() {
  FB_TRY(sys::mkdirs(directory_, 0700));
  const auto text = sys::read_file(current(), kMostToRead);
  if (!text) return {};
  const std::size_t whole = text->rfind('\n') + 1;  // npos + 1 is 0
  if (whole != text->size() && ::truncate(current().c_str(), static_cast<off_t>(whole)) != 0)
    return fail_errno("repairing the egress log");
  return {};
}

Result<bool> DecisionFile::append(std::string_view lines) {
  auto file = sys::open(current(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (!file) return std::unexpected(std::move(file).error());
  FB_TRY_ASSIGN(const std::uint64_t size, sys::file_size(file->get()));
  const bool full = size > 0 && size + lines.size() > kMaxBytes;
  if (full) {
    if (std::rename(current().c_str(), older().c_str()) != 0) return fail_errno("the egress log");
    FB_TRY_ASSIGN(*file, sys::open(current(), O_WRONLY | O_CREAT | O_APPEND, 0600));
  }
  FB_TRY(sys::write_all(file->get(), lines));
  return full;
}

Result<> DecisionFile::keep(const DecisionSummary& summary) {
  return sys::swap_file(kept(), summary.to_text());
}

std::vector<Decision> DecisionFile::read() const {
  std::vector<Decision> out;
  read_into(older(), out);
  read_into(current(), out);
  return out;
}

DecisionSummary DecisionFile::read_summary() const {
  DecisionSummary out;
  if (const auto text = sys::read_file(kept(), kMaxSummary)) {
    if (auto summary = DecisionSummary::from_text(*text)) out = *std::move(summary);
  }
  const std::uint64_t known = out.last_number();
  for (const Decision& decision : read())
    if (decision.number > known) out.add(decision);
  return out;
}

std::vector<Decision> recent_decisions(const std::string& directory, std::size_t limit,
                                       std::optional<core::Time> since) {
  std::vector<Decision> all = DecisionFile(directory).read();
  if (since) std::erase_if(all, [&](const Decision& one) { return one.time < *since; });
  if (all.size() > limit) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(limit));
  return all;
}

}  // namespace firebreak::egress
