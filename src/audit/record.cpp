#include "audit/record.h"

#include <array>
#include <charconv>

namespace firebreak::audit {
namespace {

// One place that says which members there are and in which order: writing and reading follow it.
template <class R, class Text, class Number>
bool each_member(R& record, Text text, Number number) {
  return number("n", record.n) && text("tenant", record.tenant) && text("act", record.act) &&
         text("outcome", record.outcome) && text("key", record.by.key) &&
         text("door", record.by.door) && text("agent", record.by.agent) &&
         text("session", record.by.session) && text("microvm", record.microvm) &&
         text("image", record.image) && text("digest", record.digest) &&
         text("engine", record.engine) && text("isolation", record.isolation) &&
         text("subject", record.subject) && text("detail", record.detail) &&
         number("count", record.count);
}

const std::string& plain(const std::string& text) {
  return text;
}
template <class Tag>
const std::string& plain(const core::Id<Tag>& id) {
  return id.str();
}

constexpr std::string_view kHex = "0123456789abcdef";

void append_number(std::string& out, std::uint64_t value) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

bool take_number(std::string_view& text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::optional<char> unescaped(std::string_view& text) {
  const char kind = text.empty() ? '\0' : text.front();
  if (kind == '"' || kind == '\\') {
    text.remove_prefix(1);
    return kind;
  }
  if (!text.starts_with("u00") || text.size() < 5) return std::nullopt;
  unsigned value = 0;
  const char* const end = text.data() + 5;
  if (std::from_chars(text.data() + 3, end, value, 16).ptr != end || value >= 0x20)
    return std::nullopt;
  text.remove_prefix(5);
  return static_cast<char>(value);
}

bool take_quoted(std::string_view& text, std::string& value) {
  if (!take(text, "\"")) return false;
  value.clear();
  while (true) {
    const std::size_t stop = text.find_first_of("\"\\");
    if (stop == std::string_view::npos) return false;
    value.append(text.substr(0, stop));
    const bool ends = text[stop] == '"';
    text.remove_prefix(stop + 1);
    if (ends) return true;
    const auto character = unescaped(text);
    if (!character) return false;
    value += *character;
  }
}

bool take_text(std::string_view& text, std::string& value) {
  return take_quoted(text, value);
}
template <class Tag>
bool take_text(std::string_view& text, core::Id<Tag>& id) {
  std::string value;
  if (!take_quoted(text, value)) return false;
  id = core::Id<Tag>(std::move(value));
  return true;
}

// Bytes of the character at the beginning; 0: it is none.
std::size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : length;
}

void bound(std::string& text) {
  std::string out;
  for (std::string_view rest = text; !rest.empty() && out.size() < kMostText;) {
    const std::size_t length = character_length(rest);
    if (out.size() + length > kMostText) break;
    if (length == 0)
      out += '?';
    else
      out += rest.substr(0, length);
    rest.remove_prefix(length == 0 ? 1 : length);
  }
  text = std::move(out);
}
template <class Tag>
void bound(core::Id<Tag>& id) {
  std::string text = id.str();
  bound(text);
  id = core::Id<Tag>(std::move(text));
}

}  // namespace

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[at];
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    } else {
      out += text[at];
    }
  }
  out += '"';
}

void append_canonical(std::string& out, const Record& record) {
  out += "{\"at\":";
  append_number(out, static_cast<std::uint64_t>(core::to_unix_ms(record.at)));
  const auto name = [&out](std::string_view member) {
    out += ",\"";
    out += member;
    out += "\":";
  };
  each_member(
      record,
      [&](std::string_view member, const auto& value) {
        name(member);
        append_quoted(out, plain(value));
        return true;
      },
      [&](std::string_view member, std::uint64_t value) {
        name(member);
        append_number(out, value);
        return true;
      });
  out += '}';
}

std::string canonical(const Record& record) {
  std::string out;
  out.reserve(512);
  append_canonical(out, record);
  return out;
}

std::optional<Record> take_canonical(std::string_view& text) {
  Record record;
  std::uint64_t at = 0;
  if (!take(text, "{\"at\":") || !take_number(text, at) || at > (1ULL << 52U)) return std::nullopt;
  record.at = core::from_unix_ms(static_cast<std::int64_t>(at));
  const auto name = [&text](std::string_view member) {
    return take(text, ",\"") && take(text, member) && take(text, "\":");
  };
  const bool whole = each_member(
      record,
      [&](std::string_view member, auto& value) { return name(member) && take_text(text, value); },
      [&](std::string_view member, std::uint64_t& value) {
        return name(member) && take_number(text, value);
      });
  if (!whole || !take(text, "}")) return std::nullopt;
  return record;
}

Record bounded(Record record) {
  each_member(
      record,
      [](std::string_view, auto& value) {
        bound(value);
        return true;
      },
      [](std::string_view, std::uint64_t&) { return true; });
  return record;
}

}  // namespace firebreak::audit
