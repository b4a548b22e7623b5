#include "wire/xml.h"

#include <algorithm>
#include <optional>

namespace firebreak::wire {
namespace {

constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMaxElements = 20'000;

std::unexpected<Error> malformed() {
  return fail(Code::invalid, "The XML you provided was not well-formed.");
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void put_utf8(std::uint32_t code, std::string& out) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::optional<std::uint32_t> parse_code(std::string_view text) {
  const bool hex = text.starts_with('x');
  if (hex) text.remove_prefix(1);
  if (text.empty() || text.size() > 7) return std::nullopt;
  std::uint32_t code = 0;
  for (const char c : text) {
    const auto at = std::string_view("0123456789abcdefABCDEF").find(c);
    const auto digit = static_cast<std::uint32_t>(at < 16 ? at : at - 6);
    if (at == std::string_view::npos || digit >= (hex ? 16U : 10U)) return std::nullopt;
    code = (code * (hex ? 16U : 10U)) + digit;
  }
  if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return std::nullopt;
  return code;
}

bool put_entity(std::string_view name, std::string& out) {
  if (name == "amp")
    out += '&';
  else if (name == "lt")
    out += '<';
  else if (name == "gt")
    out += '>';
  else if (name == "quot")
    out += '"';
  else if (name == "apos")
    out += '\'';
  else if (name.starts_with('#')) {
    const auto code = parse_code(name.substr(1));
    if (!code) return false;
    put_utf8(*code, out);
  } else {
    return false;
  }
  return true;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : left_(text) {}

  Result<XmlElement> document() {
    FB_TRY(skip_between());
    XmlElement root;
    FB_TRY(element(root, 0));
    FB_TRY(skip_between());
    if (!left_.empty()) return malformed();
    return root;
  }

 private:
  bool take(std::string_view token) {
    if (!left_.starts_with(token)) return false;
    left_.remove_prefix(token.size());
    return true;
  }
  Result<std::string_view> until(std::string_view token) {
    const auto at = left_.find(token);
    if (at == std::string_view::npos) return malformed();
    const std::string_view out = left_.substr(0, at);
    left_.remove_prefix(at + token.size());
    return out;
  }

  // Space, comments and the declaration, outside of the root.
  Result<> skip_between() {
    for (;;) {
      while (!left_.empty() && is_space(left_.front())) left_.remove_prefix(1);
      if (take("<?")) {
        FB_TRY(until("?>"));
      } else if (take("<!--")) {
        FB_TRY(until("-->"));
      } else {
        return {};
      }
    }
  }

  // Behind "<": name and attributes. True: the element is empty.
  Result<bool> head(XmlElement& out) {
    const auto end =
        std::ranges::find_if(left_, [](char c) { return is_space(c) || c == '>' || c == '/'; });
    std::string_view name = left_.substr(0, static_cast<std::size_t>(end - left_.begin()));
    left_.remove_prefix(name.size());
    if (const auto colon = name.rfind(':'); colon != std::string_view::npos)
      name.remove_prefix(colon + 1);
    if (name.empty() || name.find_first_of("<&!?\"'=") != std::string_view::npos)
      return malformed();
    out.name = name;
    for (;;) {
      while (!left_.empty() && is_space(left_.front())) left_.remove_prefix(1);
      if (take("/>")) return true;
      if (take(">")) return false;
      FB_TRY(until("="));
      const char quote = left_.empty() ? '\0' : left_.front();
      if (quote != '"' && quote != '\'') return malformed();
      left_.remove_prefix(1);
      FB_TRY(until(std::string_view(&quote, 1)));
    }
  }

  Result<> element(XmlElement& out, std::size_t depth) {
    if (depth == kMaxDepth || ++elements_ > kMaxElements || !take("<")) return malformed();
    FB_TRY_ASSIGN(const bool empty, head(out));
    if (empty) return {};
    for (;;) {
      FB_TRY(text(out));
      if (take("</")) {
        FB_TRY_ASSIGN(std::string_view name, until(">"));
        while (!name.empty() && is_space(name.back())) name.remove_suffix(1);
        if (const auto colon = name.rfind(':'); colon != std::string_view::npos)
          name.remove_prefix(colon + 1);
        if (name != out.name) return malformed();
        return {};
      }
      if (take("<!--")) {
        FB_TRY(until("-->"));
        continue;
      }
      FB_TRY(element(out.children.emplace_back(), depth + 1));
    }
  }

  // Up to the next "<".
  Result<> text(XmlElement& out) {
    while (!left_.empty() && left_.front() != '<') {
      if (left_.front() != '&') {
        const auto at = std::min(left_.find_first_of("<&"), left_.size());
        out.text += left_.substr(0, at);
        left_.remove_prefix(at);
        continue;
      }
      left_.remove_prefix(1);
      FB_TRY_ASSIGN(const std::string_view name, until(";"));
      if (!put_entity(name, out.text)) return malformed();
    }
    return left_.empty() ? malformed() : Result<>();
  }

  std::string_view left_;
  std::size_t elements_ = 0;
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view child_name) const {
  const auto at = std::ranges::find(children, child_name, &XmlElement::name);
  return at == children.end() ? nullptr : &*at;
}

std::string XmlElement::child_text(std::string_view child_name) const {
  const XmlElement* found = child(child_name);
  return found == nullptr ? "" : found->text;
}

Result<XmlElement> parse_xml(std::string_view text) {
  return Parser(text).document();
}

}  // namespace firebreak::wire
