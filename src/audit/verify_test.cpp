// Every way to lie about a chain is named.
#include "audit/verify.h"

#include <chrono>
#include <vector>

#include <gtest/gtest.h>

#include "audit/chain.h"
#include "audit/ocsf.h"
#include "audit/signing.h"

namespace firebreak::audit {
namespace {

const std::string kPrivate(kKeyBytes, 'p');

struct Made {
  std::vector<std::string> lines;
  std::vector<std::string> checkpoints;
};

Record nth(std::uint64_t n) {
  Record record;
  record.n = n;
  record.at = core::from_unix_ms(1'700'000'000'000 + static_cast<std::int64_t>(n));
  record.tenant = core::TenantId("123456789012");
  record.act = n % 2 == 0 ? "exec" : "file.write";
  record.outcome = "allowed";
  record.by = {core::KeyId("AKIAABCDEFGHIJKLMNOP"), "native", "agent", "session-1"};
  record.microvm = core::MicrovmId("microvm-1");
  record.engine = "qemu";
  record.isolation = "emulated";
  record.detail = "sha256:0123";
  return record;
}

// A checkpoint behind the record `checked`; lines of records from `first` on.
Made make(std::uint64_t last, std::uint64_t checked, std::uint64_t first = 1,
          std::uint64_t changed = 0, const std::string& key = kPrivate) {
  Made made;
  Manifest manifest{.tenant = nth(1).tenant, .first = first, .last = last};
  std::string hash = first_hash();
  for (std::uint64_t n = 1; n <= last; ++n) {
    Record record = nth(n);
    if (n == changed) record.subject = "other";
    if (n == first) manifest.previous = hash;
    hash = next_hash(hash, canonical(record));
    if (n >= first) append_line(made.lines.emplace_back(), record, hash);
    if (n == checked) {
      made.checkpoints.push_back(checkpoint_line({record.tenant, n, hash, record.at}, key).value());
      if (n >= first) made.lines.push_back(made.checkpoints.back());
    }
  }
  manifest.hash = hash;
  manifest.at = nth(last).at;
  const std::string ends = manifest_lines(manifest, key).value();
  made.lines.push_back(ends.substr(0, ends.find('\n')));
  made.lines.push_back(ends.substr(ends.find('\n') + 1));
  return made;
}

Result<Verdict> verdict(const std::vector<std::string>& lines,
                        const std::vector<std::string>& kept = {}) {
  Verifier verifier(public_key(kPrivate).value());
  for (const std::string& line : kept) FB_TRY(verifier.expect(line));
  for (const std::string& line : lines) FB_TRY(verifier.line(line));
  return verifier.finish();
}

std::string told(const std::vector<std::string>& lines, const std::vector<std::string>& kept = {}) {
  const auto result = verdict(lines, kept);
  return result ? "well" : result.error().message;
}

TEST(AuditVerify, ProvesAWholeChainAndARange) {
  const auto whole = verdict(make(9, 5).lines);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->records, 9U);
  EXPECT_EQ(whole->checkpoints, 1U);
  EXPECT_FALSE(whole->anchored);
  EXPECT_EQ(told(make(9, 5, 4).lines), "well");
  EXPECT_TRUE(verdict(make(9, 5).lines, make(9, 5).checkpoints)->anchored);
}

TEST(AuditVerify, NamesAChangedByteWhereverItIs) {
  const Made made = make(3, 0);
  for (std::size_t at = 0; at < made.lines[1].size(); ++at) {
    auto lines = made.lines;
    lines[1][at] = lines[1][at] == '1' ? '2' : '1';
    EXPECT_TRUE(told(lines).starts_with("record 2:")) << at << told(lines);
  }
}

TEST(AuditVerify, NamesWhatIsRemovedSwappedOrCut) {
  const Made made = make(9, 0);
  auto removed = made.lines;
  removed.erase(removed.begin() + 3);
  EXPECT_TRUE(told(removed).starts_with("record 4: it is missing")) << told(removed);
  auto swapped = made.lines;
  std::swap(swapped[4], swapped[5]);
  EXPECT_TRUE(told(swapped).starts_with("record 5: it is missing or swapped")) << told(swapped);
  auto twice = made.lines;
  twice.insert(twice.begin() + 2, twice[1]);
  EXPECT_EQ(told(twice), "record 3: record 2 stands in its place");
  auto without_last = made.lines;
  without_last.erase(without_last.begin() + 8);
  EXPECT_EQ(told(without_last), "record 9: it is missing: the end was cut off");
  auto without_first = made.lines;
  without_first.erase(without_first.begin());
  EXPECT_EQ(told(without_first), "record 1: it is missing");
  auto cut = made.lines;
  cut.resize(6);
  EXPECT_EQ(told(cut), "record 7: the stream was cut off: it has no signed manifest");
}

TEST(AuditVerify, KeptCheckpointsFindForksAndCutEnds) {
  const auto kept = make(9, 5).checkpoints;
  EXPECT_TRUE(told(make(9, 0, 1, 3).lines, kept).starts_with("record 5: a checkpoint"));
  EXPECT_EQ(told(make(9, 0, 1, 7).lines, kept), "well");
  EXPECT_TRUE(told(make(9, 9).lines, {make(9, 9, 1, 2).checkpoints}).starts_with("record 9: "));
}

TEST(AuditVerify, RefusesAnotherKey) {
  const std::string other(kKeyBytes, 'q');
  EXPECT_EQ(told(make(3, 0, 1, 0, other).lines),
            "the manifest was changed, or signed with another key");
  EXPECT_EQ(told(make(3, 2, 1, 0, other).lines),
            "record 2: its checkpoint was not signed with this key");
}

TEST(AuditVerify, IsFast) {
  const Made made = make(20'000, 0);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(told(made.lines), "well");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("records_per_second", static_cast<int>(20'000 / took.count()));
  std::printf("%d records/s\n", static_cast<int>(20'000 / took.count()));
}

}  // namespace
}  // namespace firebreak::audit
