// For tests of DNS: messages of a client, and what another implementation (libresolv) reads in an
// answer.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "wire/dns.h"

namespace firebreak::wire {

inline std::string dns_name(std::string_view dotted) {
  std::string out;
  for (const std::string_view label : split(dotted, '.')) {
    out += static_cast<char>(label.size());
    out += label;
  }
  return out + '\0';
}

inline std::string dns_header(std::uint16_t flags, std::uint16_t questions,
                              std::uint16_t additional) {
  std::string out;
  put_u16(out, 0x1234);
  put_u16(out, flags);
  put_u16(out, questions);
  put_u16(out, 0);
  put_u16(out, 0);
  put_u16(out, additional);
  return out;
}

inline std::string dns_question(std::string_view name, std::uint16_t type) {
  std::string out = dns_name(name);
  put_u16(out, type);
  put_u16(out, kDnsClassIn);
  return out;
}

inline std::string dns_opt(std::uint16_t size, std::string_view options = {},
                           std::uint8_t version = 0) {
  std::string out(1, '\0');
  put_u16(out, 41);
  put_u16(out, size);
  put_u32(out, static_cast<std::uint32_t>(version) << 16 | 0x8000U);
  put_u16(out, static_cast<std::uint16_t>(options.size()));
  return out.append(options);
}

inline std::string dns_ask(std::string_view name, std::uint16_t type = kDnsA) {
  return dns_header(0x0100, 1, 0) + dns_question(name, type);
}

inline std::string dns_ask_edns(std::string_view name, std::uint16_t size,
                                std::uint16_t type = kDnsA) {
  return dns_header(0x0100, 1, 1) + dns_question(name, type) + dns_opt(size);
}

struct DnsRead {
  unsigned id = 0;
  int rcode = 0;
  bool truncated = false;
  bool recursion_available = false;
  std::string question;
  std::vector<std::string> addresses;
  std::uint32_t ttl = 0;
  std::optional<std::uint16_t> error;
  std::string text;
};

inline void read_error(const ns_rr& rr, DnsRead& out) {
  out.rcode |= static_cast<int>(ns_rr_ttl(rr) >> 24 << 4);
  const std::string data(reinterpret_cast<const char*>(ns_rr_rdata(rr)), ns_rr_rdlen(rr));
  if (data.size() < 6 || get_u16(data.data()) != 15) return;
  EXPECT_EQ(get_u16(data.data() + 2), data.size() - 4);
  out.error = get_u16(data.data() + 4);
  out.text = data.substr(6);
}

inline DnsRead read_dns(const std::string& message) {
  DnsRead out;
  ns_msg parsed;
  const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
  EXPECT_EQ(ns_initparse(bytes, static_cast<int>(message.size()), &parsed), 0);
  out.id = ns_msg_id(parsed);
  EXPECT_TRUE(ns_msg_getflag(parsed, ns_f_qr));
  out.rcode = ns_msg_getflag(parsed, ns_f_rcode);
  out.truncated = ns_msg_getflag(parsed, ns_f_tc) != 0;
  out.recursion_available = ns_msg_getflag(parsed, ns_f_ra) != 0;
  ns_rr rr;
  if (ns_msg_count(parsed, ns_s_qd) == 1) {
    EXPECT_EQ(ns_parserr(&parsed, ns_s_qd, 0, &rr), 0);
    out.question = ns_rr_name(rr);
  }
  for (int i = 0; i < ns_msg_count(parsed, ns_s_an); ++i) {
    EXPECT_EQ(ns_parserr(&parsed, ns_s_an, i, &rr), 0);
    EXPECT_EQ(ns_rr_name(rr), out.question);
    EXPECT_EQ(ns_rr_type(rr), ns_rr_rdlen(rr) == 4 ? ns_t_a : ns_t_aaaa);
    out.ttl = ns_rr_ttl(rr);
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(ns_rr_rdlen(rr) == 4 ? AF_INET : AF_INET6, ns_rr_rdata(rr), text.data(), text.size());
    out.addresses.emplace_back(text.data());
  }
  for (int i = 0; i < ns_msg_count(parsed, ns_s_ar); ++i) {
    EXPECT_EQ(ns_parserr(&parsed, ns_s_ar, i, &rr), 0);
    if (ns_rr_type(rr) == ns_t_opt) read_error(rr, out);
  }
  return out;
}

}  // namespace firebreak::wire
