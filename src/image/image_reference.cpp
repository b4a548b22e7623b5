#include "image/image_reference.h"

#include <algorithm>

#include "base/text.h"
#include "image/build_context.h"
#include "image/oci_layout.h"
#include "wire/path_pattern.h"

namespace firebreak::image {
namespace {

constexpr std::size_t kMaxReference = 512;
constexpr std::size_t kMaxTag = 128;
constexpr std::size_t kMaxHost = 255;
constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view kTagStart =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

bool is_word(std::string_view text, std::string_view first, std::string_view more) {
  return !text.empty() && first.contains(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return first.contains(c) || more.contains(c); });
}

// A name, an IPv4 address, or an IPv6 address in brackets; with or without a port.
bool is_host(std::string_view text) {
  if (text.size() > kMaxHost) return false;
  const auto colon = text.ends_with(']') ? std::string_view::npos : text.rfind(':');
  std::string_view host = text.substr(0, colon);
  if (colon != std::string_view::npos) {
    const auto port = parse_u64(text.substr(colon + 1));
    if (!port || *port == 0 || *port > 65535) return false;
  }
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    return is_word(host, "0123456789abcdef:", ".");
  }
  return is_word(host, kLower, ".-");
}

bool is_path(std::string_view text) {
  return std::ranges::all_of(split(text, '/'), [](std::string_view part) {
    return is_word(part, kLower, "._-") && kLower.contains(part.back());
  });
}

}  // namespace

Result<std::optional<LayoutReference>> parse_layout_reference(std::string_view text) {
  LayoutReference out;
  std::string_view rest;
  for (const auto& [prefix, archive] : {std::pair<std::string_view, bool>{"oci-archive:", true},
                                        std::pair<std::string_view, bool>{"oci:", false}}) {
    if (!text.starts_with(prefix)) continue;
    out.archive = archive;
    rest = text.substr(prefix.size());
    const auto slash = rest.rfind('/');
    const auto colon = rest.find(':', slash == std::string_view::npos ? 0 : slash);
    out.path = rest.substr(0, colon);
    if (colon != std::string_view::npos) out.name = rest.substr(colon + 1);
    const auto parts = split(out.path, '/');
    const bool up = std::ranges::find(parts, "..") != parts.end();
    if (out.path.empty() || up || (colon != std::string_view::npos && out.name.empty()))
      return fail(Code::invalid, quoted_path(text) + ": write " + std::string(prefix) + "PATH or " +
                                     std::string(prefix) +
                                     "PATH:NAME, with a path that does not lead up");
    out.path = wire::clean_path(out.path);
    return out;
  }
  return std::nullopt;
}

Result<RegistryReference> parse_registry_reference(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return fail(Code::invalid,
                quoted_path(text) + " is not the name of an image: " + std::string(why),
                Repair{"write [HOST/]NAME[:TAG][@sha256:DIGEST]"});
  };
  if (text.size() > kMaxReference) return bad("it is too long");
  RegistryReference out;
  std::string_view rest = text;
  if (const auto at = rest.find('@'); at != std::string_view::npos) {
    out.digest = rest.substr(at + 1);
    if (!is_digest(out.digest)) return bad("its digest is wrong");
    rest = rest.substr(0, at);
  }
  const std::string_view first = rest.substr(0, rest.find('/'));
  // As everybody decides it: a name with a dot or a port is a host.
  if (first.size() < rest.size() &&
      (first.find_first_of(".:") != std::string_view::npos || first == "localhost")) {
    if (!is_host(first)) return bad("its host is wrong");
    out.host = first;
    rest = rest.substr(first.size() + 1);
  }
  const auto colon = rest.rfind(':');
  if (colon != std::string_view::npos && !rest.substr(colon).contains('/')) {
    out.tag = rest.substr(colon + 1);
    if (out.tag.size() > kMaxTag || !is_word(out.tag, kTagStart, ".-"))
      return bad("its tag is wrong");
    rest = rest.substr(0, colon);
  }
  if (!is_path(rest)) return bad("a name has small letters and digits, with . _ - between them");
  out.path = rest;
  return out;
}

Result<std::vector<RegistryHost>> parse_registries(std::string_view text) {
  std::vector<RegistryHost> out;
  for (std::string_view part : split(text, ',')) {
    if (part.empty()) continue;
    constexpr std::string_view kPlain = "http://";
    const bool plain = part.starts_with(kPlain);
    const std::string_view host = plain ? part.substr(kPlain.size()) : part;
    if (!is_host(host))
      return fail(Code::invalid, quoted_path(part) + " is not a registry",
                  Repair{"write HOST, HOST:PORT or, without TLS, "
                         "http://HOST:PORT"});
    out.push_back({.host = std::string(host), .plain = plain});
  }
  return out;
}

}  // namespace firebreak::image
