#include "wire/dns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "wire/dns_test_support.h"

namespace firebreak::wire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

DnsRcode rcode_of(std::string_view message) {
  const auto query = parse_dns_query(message);
  EXPECT_TRUE(query);
  return query ? query->rcode : DnsRcode::ok;
}

std::vector<std::string> addresses(int count, bool v6) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) {
    std::string raw = v6 ? "\x20\x01\x0d\xb8" + std::string(12, '\0') : std::string("\xc0\0\2x", 4);
    raw.back() = static_cast<char>(i + 1);
    out.push_back(raw);
  }
  return out;
}

TEST(DnsQuery, ReadsOneQuestion) {
  const auto query = parse_dns_query(dns_ask("ExAmple.Test", kDnsAaaa));
  ASSERT_TRUE(query);
  EXPECT_EQ(query->rcode, DnsRcode::ok);
  EXPECT_EQ(query->id, 0x1234);
  EXPECT_EQ(query->name, "example.test");
  EXPECT_TRUE(query->is_host_name);
  EXPECT_EQ(query->type, kDnsAaaa);
  EXPECT_TRUE(query->recursion_desired);
  EXPECT_FALSE(query->has_edns);
  EXPECT_EQ(query->udp_limit(), 512U);
}

TEST(DnsQuery, ReadsEdnsAndIgnoresItsOptions) {
  const std::string cookie("\0\12\0\10abcdefgh", 12);
  const auto query = parse_dns_query(dns_header(0x0110, 1, 1) + dns_question("a.test", kDnsA) +
                                     dns_opt(4096, cookie));
  ASSERT_TRUE(query);
  EXPECT_EQ(query->rcode, DnsRcode::ok);
  EXPECT_TRUE(query->has_edns);
  EXPECT_TRUE(query->dnssec_ok);
  EXPECT_TRUE(query->checking_disabled);
  EXPECT_EQ(query->udp_size, 4096);
  EXPECT_EQ(query->udp_limit(), kMaxDnsUdpAnswer);
  EXPECT_EQ(parse_dns_query(dns_ask_edns("a.test", 100))->udp_limit(), 512U);
}

TEST(DnsQuery, NamesThatAreNoHostNamesCannotLookLikeOne) {
  const auto of = [](std::string_view name) {
    std::string raw;
    raw += static_cast<char>(name.size());
    raw += name;
    raw += std::string("\4test\0\0\1\0\1", 10);
    return *parse_dns_query(dns_header(0, 1, 0) + raw);
  };
  EXPECT_EQ(of("a.b").name, "a\\046b.test");
  EXPECT_FALSE(of("a.b").is_host_name);
  EXPECT_EQ(of(std::string_view("\0\xff\\", 3)).name, "\\000\\255\\092.test");
  EXPECT_FALSE(of("sp ace").is_host_name);
  EXPECT_TRUE(of("_srv-1").is_host_name);
  EXPECT_FALSE(parse_dns_query(dns_ask("169.254.169.254"))->is_host_name)
      << "an address in disguise";
  const auto root = parse_dns_query(dns_header(0, 1, 0) + std::string("\0\0\2\0\1", 5));
  EXPECT_EQ(root->rcode, DnsRcode::ok);
  EXPECT_EQ(root->name, "");
  EXPECT_FALSE(root->is_host_name);
}

TEST(DnsQuery, WhatIsNoQueryGetsNoAnswer) {
  EXPECT_FALSE(parse_dns_query(""));
  EXPECT_FALSE(parse_dns_query(dns_ask("a.test").substr(0, 11)));
  EXPECT_FALSE(parse_dns_query(dns_header(0x8000, 1, 0) + dns_question("a.test", kDnsA)));
}

TEST(DnsQuery, RefusesWhatIsNotOnePlainQuestion) {
  const std::string plain = dns_question("a.test", kDnsA);
  EXPECT_EQ(rcode_of(dns_header(0x2000, 1, 0) + plain), DnsRcode::not_implemented);  // NOTIFY
  EXPECT_EQ(rcode_of(dns_header(0, 0, 0)), DnsRcode::format_error);
  EXPECT_EQ(rcode_of(dns_header(0, 2, 0) + plain + plain), DnsRcode::format_error);
  EXPECT_EQ(rcode_of(dns_header(0x0200, 1, 0) + plain), DnsRcode::format_error)
      << "truncated query";
  EXPECT_EQ(rcode_of(dns_header(0, 1, 0) + plain + "x"), DnsRcode::format_error)
      << "rest behind it";
  EXPECT_EQ(rcode_of(dns_header(0, 1, 2) + plain + dns_opt(512) + dns_opt(512)),
            DnsRcode::format_error);
  EXPECT_EQ(rcode_of(dns_header(0, 1, 1) + plain + dns_opt(512, {}, 1)), DnsRcode::bad_version);
  EXPECT_EQ(rcode_of(dns_header(0, 1, 1) + plain), DnsRcode::format_error) << "OPT is missing";
  EXPECT_EQ(rcode_of(dns_header(0, 1, 1) + plain + dns_opt(512, std::string(1, '\0'))),
            DnsRcode::format_error);
  EXPECT_EQ(rcode_of(dns_header(0, 1, 1) + plain + dns_opt(512, std::string("\0\12\0\7ab", 6))),
            DnsRcode::format_error);
  const std::string big = dns_opt(512, std::string("\0\14\5\0", 4) + std::string(1280, '\0'));
  EXPECT_EQ(rcode_of(dns_header(0, 1, 1) + plain + big), DnsRcode::format_error)
      << "larger than 1232";
  std::string answer = dns_header(0, 1, 0) + plain;
  answer[7] = 1;  // one answer record, said the header
  EXPECT_EQ(rcode_of(answer), DnsRcode::format_error);
}

TEST(DnsQuery, RefusesEveryCut) {
  const std::string whole = dns_ask_edns("a.example.test", 1232);
  for (std::size_t size = 12; size < whole.size(); ++size)
    EXPECT_EQ(rcode_of(whole.substr(0, size)), DnsRcode::format_error) << size;
}

TEST(DnsQuery, NamesHaveTheLengthsOfTheStandard) {
  const std::string label63(63, 'a');
  const std::string name255 = label63 + "." + label63 + "." + label63 + "." + std::string(61, 'b');
  EXPECT_EQ(rcode_of(dns_ask(name255)), DnsRcode::ok);
  EXPECT_EQ(parse_dns_query(dns_ask(name255))->name, name255);
  EXPECT_EQ(rcode_of(dns_ask(name255 + "b")), DnsRcode::format_error);
  EXPECT_EQ(rcode_of(dns_ask(label63 + "a.test")), DnsRcode::format_error);
}

TEST(DnsQuery, HasNoCompression) {
  const std::string tail("\0\1\0\1", 4);
  for (const std::string& name : {std::string("\xc0\x0c", 2), std::string("\xc0\x00", 2),
                                  std::string("\1a\xc0\x0c", 4), std::string("\xc0\x0e\1a\0", 5),
                                  std::string("\x41"
                                              "a",
                                              2),
                                  std::string("\x80\0", 2)})
    EXPECT_EQ(rcode_of(dns_header(0, 1, 0) + name + tail), DnsRcode::format_error);
}

TEST(DnsAnswer, AnswersAddressesUnderTheNameAsAsked) {
  const auto query = *parse_dns_query(dns_ask("ExAmple.Test"));
  const std::string message =
      build_dns_answer(query, {.addresses = addresses(2, false), .ttl = 60}, query.udp_limit());
  const DnsRead got = read_dns(message);
  EXPECT_EQ(got.id, 0x1234U);
  EXPECT_EQ(got.rcode, 0);
  EXPECT_TRUE(got.recursion_available);
  EXPECT_EQ(got.question, "ExAmple.Test");
  EXPECT_THAT(got.addresses, ElementsAre("192.0.2.1", "192.0.2.2"));
  EXPECT_EQ(got.ttl, 60U);
  EXPECT_FALSE(got.truncated);
}

TEST(DnsAnswer, AnswersIpv6AndNothing) {
  const auto query = *parse_dns_query(dns_ask("a.test", kDnsAaaa));
  EXPECT_THAT(read_dns(build_dns_answer(query, {.addresses = addresses(1, true)}, 512)).addresses,
              ElementsAre("2001:db8::1"));
  const DnsRead none = read_dns(build_dns_answer(query, {.rcode = DnsRcode::no_such_name}, 512));
  EXPECT_EQ(none.rcode, 3);
  EXPECT_THAT(none.addresses, IsEmpty());
}

TEST(DnsAnswer, SaysWhyToWhoCanHearIt) {
  const DnsAnswer denied{
      .rcode = DnsRcode::refused,
      .error = DnsExtendedError{DnsErrorCode::blocked, "policy p has no rule for a.test"}};
  const DnsRead got =
      read_dns(build_dns_answer(*parse_dns_query(dns_ask_edns("a.test", 1232)), denied, 512));
  EXPECT_EQ(got.rcode, 5);
  EXPECT_EQ(got.error, 15);
  EXPECT_EQ(got.text, "policy p has no rule for a.test");
  const std::string plain = build_dns_answer(*parse_dns_query(dns_ask("a.test")), denied, 512);
  EXPECT_EQ(read_dns(plain).rcode, 5);
  EXPECT_EQ(get_u16(plain.data() + 10), 0) << "OPT for a client that has none";
}

TEST(DnsAnswer, CutsTheTextBetweenCharacters) {
  std::string text;
  while (text.size() < 2000) text += "\xc3\xa4";
  const DnsAnswer denied{.rcode = DnsRcode::refused,
                         .error = DnsExtendedError{DnsErrorCode::blocked, text}};
  for (const char* name : {"a.test", "ab.test"}) {
    const std::string message =
        build_dns_answer(*parse_dns_query(dns_ask_edns(name, 512)), denied, 512);
    EXPECT_LE(message.size(), 512U);
    const DnsRead got = read_dns(message);
    EXPECT_GT(got.text.size(), 400U);
    EXPECT_EQ(got.text.size() % 2, 0U);
    EXPECT_THAT(text, StartsWith(got.text));
  }
}

TEST(DnsAnswer, SaysThatItIsTruncated) {
  const DnsAnswer many{.addresses = addresses(60, true), .ttl = 1};
  const auto query = *parse_dns_query(dns_ask("a.test", kDnsAaaa));
  const std::string cut = build_dns_answer(query, many, query.udp_limit());
  EXPECT_LE(cut.size(), 512U);
  EXPECT_TRUE(read_dns(cut).truncated);
  EXPECT_EQ(read_dns(cut).addresses.size(), 17U);
  const auto larger = *parse_dns_query(dns_ask_edns("a.test", 1232, kDnsAaaa));
  const std::string more = build_dns_answer(larger, many, larger.udp_limit());
  EXPECT_LE(more.size(), 1232U);
  EXPECT_TRUE(read_dns(more).truncated);
  EXPECT_GT(read_dns(more).addresses.size(), 40U);
  const DnsRead whole = read_dns(build_dns_answer(query, many, kMaxDnsMessage));
  EXPECT_FALSE(whole.truncated);
  EXPECT_EQ(whole.addresses.size(), 60U);
}

TEST(DnsAnswer, AnswersTheUnreadableWithoutAQuestion) {
  const auto query = *parse_dns_query(dns_header(0, 0, 0));
  const DnsRead got = read_dns(build_dns_answer(query, {.rcode = query.rcode}, 512));
  EXPECT_EQ(got.id, 0x1234U);
  EXPECT_EQ(got.rcode, 1);
  const auto version =
      *parse_dns_query(dns_header(0, 1, 1) + dns_question("a.test", kDnsA) + dns_opt(512, {}, 7));
  EXPECT_EQ(read_dns(build_dns_answer(version, {.rcode = version.rcode}, 512)).rcode, 16);
}

TEST(DnsFraming, GivesWholeMessagesInAnyPieces) {
  const std::string stream = frame_dns("first") + frame_dns("x") + frame_dns("third");
  for (const std::size_t piece : {1U, 2U, 3U, 100U}) {
    DnsUnframer unframer;
    std::vector<std::string> got;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      std::string_view input = std::string_view(stream).substr(at, piece);
      while (auto message = unframer.next(input)) got.push_back(*message);
      EXPECT_TRUE(input.empty());
    }
    EXPECT_THAT(got, ElementsAre("first", "x", "third"));
    EXPECT_TRUE(unframer.empty());
    EXPECT_FALSE(unframer.failed());
  }
}

TEST(DnsFraming, HoldsNoMoreThanOneQuery) {
  for (const std::string& bad : {std::string("\0\0", 2), std::string("\4\xd1", 2)}) {
    DnsUnframer unframer;
    std::string_view input = bad;
    EXPECT_FALSE(unframer.next(input));
    EXPECT_TRUE(unframer.failed());
    input = "more";
    EXPECT_FALSE(unframer.next(input));
  }
}

}  // namespace
}  // namespace firebreak::wire
