#include "audit/record.h"

#include <gtest/gtest.h>

#include "audit/chain.h"

namespace firebreak::audit {
namespace {

Record sample_record() {
  Record record;
  record.n = 7;
  record.at = core::from_unix_ms(1'700'000'000'123);
  record.tenant = core::TenantId("123456789012");
  record.act = "exec";
  record.outcome = "allowed";
  record.by = {core::KeyId("AKIAABCDEFGHIJKLMNOP"), "native", "agent-1", "session-1"};
  record.subject = "a \"quoted\" \\ name\nwith a line";
  record.detail = "sha256:00";
  return record;
}

TEST(AuditRecord, ComesBackFromItsCanonicalText) {
  const std::string text = canonical(sample_record());
  std::string_view rest = text;
  const auto again = take_canonical(rest);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, sample_record());
  EXPECT_TRUE(rest.empty());
}

TEST(AuditRecord, HasOneTextOnly) {
  const std::string text = canonical(sample_record());
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string_view cut = std::string_view(text).substr(0, at);
    EXPECT_FALSE(take_canonical(cut)) << at;
  }
}

TEST(AuditRecord, BoundsWhatOthersChose) {
  Record record = sample_record();
  record.subject = std::string(5000, 'x');
  record.detail = "\xff\xc3\xa4\xed\xa0\x80";
  const Record kept = bounded(record);
  EXPECT_EQ(kept.subject.size(), kMostText);
  EXPECT_EQ(kept.detail, "?\xc3\xa4???");
}

TEST(AuditChain, HashCoversTheOneBefore) {
  const std::string text = canonical(sample_record());
  EXPECT_NE(next_hash(first_hash(), text), next_hash(std::string(64, '1'), text));
  EXPECT_EQ(next_hash(first_hash(), text).size(), 64U);
}

}  // namespace
}  // namespace firebreak::audit
