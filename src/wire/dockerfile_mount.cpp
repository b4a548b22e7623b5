// The value of RUN --mount.
#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "wire/dockerfile.h"
#include "wire/dockerfile_words.h"

namespace firebreak::wire {
namespace {

constexpr std::string_view kOptions =
    "type, from, source, target, readonly, readwrite, id, sharing, required, size, mode, uid, gid, "
    "env";

struct Option {
  std::string key;  // in lower case, aliases resolved
  std::optional<std::string> value;
};

// Comma-separated; a field in double quotes may hold commas, and "" for a quote.
Result<std::vector<std::string>> split_fields(std::string_view text) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && text.substr(i + 1).starts_with('"')) {
      fields.back().push_back('"');
      ++i;
    } else if (c == '"' && (quoted || fields.back().empty())) {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back().push_back(c);
    }
  }
  if (quoted) return fail(Code::invalid, "--mount: a double quote is not closed");
  return fields;
}

Option read_option(std::string_view field) {
  const auto equals = field.find('=');
  Option option{.key = std::string(field.substr(0, equals)), .value = std::nullopt};
  std::ranges::transform(option.key, option.key.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (equals != std::string_view::npos) option.value = std::string(field.substr(equals + 1));
  if (option.key == "src") option.key = "source";
  if (option.key == "dst" || option.key == "destination") option.key = "target";
  if (option.key == "ro") option.key = "readonly";
  if (option.key == "rw") option.key = "readwrite";
  return option;
}

std::optional<bool> to_bool(std::string_view text) {
  if (text == "1" || text == "t" || text == "T" || text == "true" || text == "True" ||
      text == "TRUE")
    return true;
  if (text == "0" || text == "f" || text == "F" || text == "false" || text == "False" ||
      text == "FALSE")
    return false;
  return std::nullopt;
}

// 64m, 1G, 1024: powers of 1024, with or without a 'b' or "ib".
std::optional<std::uint64_t> to_bytes(std::string_view text) {
  std::string upper = to_upper(text);
  if (upper.ends_with("IB")) upper.resize(upper.size() - 2);
  if (upper.ends_with('B')) upper.resize(upper.size() - 1);
  unsigned shift = 0;
  if (const auto unit = std::string_view("KMGT").find(upper.empty() ? ' ' : upper.back());
      unit != std::string_view::npos) {
    shift = 10 * (static_cast<unsigned>(unit) + 1);
    upper.pop_back();
  }
  const auto number = parse_u64(upper);
  if (!number || *number > (std::uint64_t{1} << 50) >> shift) return std::nullopt;
  return *number << shift;
}

class MountReader {
 public:
  Result<> set(const Option& option);
  Result<Mount> finish();

 private:
  std::unexpected<Error> wrong(std::string_view what, Repair repair = {}) const {
    return fail(Code::invalid, "--mount: " + std::string(what), std::move(repair));
  }
  Result<> set_type(std::string_view value);
  Result<> set_flag(const Option& option);
  Result<> set_number(const Option& option);
  Result<> check_secret();

  Mount mount_;
  bool access_given_ = false;
  bool sharing_given_ = false;
};

Result<> MountReader::set_type(std::string_view value) {
  if (value == "bind") {
    mount_.type = Mount::Type::bind;
  } else if (value == "cache") {
    mount_.type = Mount::Type::cache;
  } else if (value == "tmpfs") {
    mount_.type = Mount::Type::tmpfs;
  } else if (value == "secret") {
    mount_.type = Mount::Type::secret;
  } else if (value == "ssh") {
    return wrong("type=ssh is not supported: no agent is forwarded into a build",
                 Repair{"give the key as a "
                        "secret, with type=secret"});
  } else {
    return wrong("unknown type '" + std::string(value.substr(0, 40)) + "'",
                 Repair{"there are bind, cache, tmpfs and secret"});
  }
  return {};
}

Result<> MountReader::set_flag(const Option& option) {
  const auto value = option.value ? to_bool(*option.value) : std::optional(true);
  if (!value) return wrong(option.key + " is true or false");
  if (option.key == "required") {
    mount_.required = *value;
  } else {
    access_given_ = true;
    mount_.read_only = *value == (option.key == "readonly");
  }
  return {};
}

Result<> MountReader::set_number(const Option& option) {
  const std::string& value = *option.value;
  std::uint32_t number = 0;
  const int base = option.key == "mode" ? 8 : 10;
  const auto [end, ec] = std::from_chars(value.data(), value.data() + value.size(), number, base);
  if (value.empty() || ec != std::errc() || end != value.data() + value.size() ||
      (base == 8 && number > 07777))
    return wrong(option.key + (base == 8 ? " is an octal number up to 7777" : " is a number"));
  (option.key == "mode" ? mount_.mode : option.key == "uid" ? mount_.uid : mount_.gid) = number;
  return {};
}

Result<> MountReader::set(const Option& option) {
  const std::string& key = option.key;
  if (key == "readonly" || key == "readwrite" || key == "required") return set_flag(option);
  if (!option.value) return wrong("'" + key.substr(0, 40) + "' needs a value, or is unknown");
  const std::string& value = *option.value;
  if (key == "type") return set_type(value);
  if (key == "mode" || key == "uid" || key == "gid") return set_number(option);
  if (key == "from") {
    mount_.from = value;
  } else if (key == "source") {
    mount_.source = value;
  } else if (key == "target") {
    mount_.target = value;
  } else if (key == "id") {
    mount_.id = value;
  } else if (key == "env") {
    mount_.env = value;
  } else if (key == "size") {
    const auto size = to_bytes(value);
    if (!size) return wrong("size is a number of bytes, or such as 64m");
    mount_.size = *size;
  } else if (key == "sharing") {
    sharing_given_ = true;
    if (value != "shared" && value != "private" && value != "locked")
      return wrong("sharing is shared, private or locked");
    mount_.sharing = value == "shared"   ? Mount::Sharing::shared
                     : value == "locked" ? Mount::Sharing::locked
                                         : Mount::Sharing::exclusive;
  } else {
    return wrong("unknown option '" + key.substr(0, 40) + "'",
                 Repair{"there are " + std::string(kOptions)});
  }
  return {};
}

Result<> MountReader::check_secret() {
  if (!mount_.from.empty()) return wrong("a secret has no 'from'");
  if (!mount_.source.empty() && !mount_.id.empty())
    return wrong("a secret has an id or a source, not both");
  if (mount_.id.empty()) mount_.id = std::exchange(mount_.source, {});
  if (mount_.id.empty() && !mount_.target.empty())
    mount_.id = mount_.target.substr(mount_.target.rfind('/') + 1);
  if (mount_.id.empty()) return wrong("a secret needs an id");
  if (mount_.target.empty() && !mount_.env)
    mount_.target = "/run/secrets/" + mount_.id.substr(mount_.id.rfind('/') + 1);
  return {};
}

Result<Mount> MountReader::finish() {
  using Type = Mount::Type;
  const bool secret = mount_.type == Type::secret;
  const bool cache = mount_.type == Type::cache;
  if (!access_given_) mount_.read_only = secret || mount_.type == Type::bind;
  if ((mount_.mode || mount_.uid || mount_.gid) && !secret && !cache)
    return wrong("mode, uid and gid are for secrets and caches");
  if (sharing_given_ && !cache) return wrong("sharing is for caches");
  if (mount_.size != 0 && mount_.type != Type::tmpfs) return wrong("size is for tmpfs");
  if ((mount_.required || mount_.env) && !secret) return wrong("required and env are for secrets");
  if (secret) {
    FB_TRY(check_secret());
  } else if (mount_.target.empty()) {
    return wrong("a target is missing: target=/path");
  }
  if (cache && mount_.id.empty()) mount_.id = mount_.target;
  return std::move(mount_);
}

}  // namespace

Result<Mount> parse_mount(std::string_view options, const VariableLookup& lookup,
                          const ExpandRules& rules) {
  FB_TRY_ASSIGN(const auto fields, split_fields(options));
  MountReader reader;
  for (const std::string& field : fields) {
    Option option = read_option(field);
    if (option.value) {
      if (option.key == "from" && option.value->contains('$'))
        return fail(Code::invalid, "--mount: 'from' takes no variables",
                    Repair{"name the image in 'FROM "
                           "$IMAGE AS NAME' and mount from NAME"});
      FB_TRY_ASSIGN(option.value, expand(*option.value, lookup, rules));
    }
    FB_TRY(reader.set(option));
  }
  return reader.finish();
}

std::string mount_source(std::string_view options) {
  std::string from;
  for (const std::string& field : split_fields(options).value_or(std::vector<std::string>()))
    if (Option option = read_option(field); option.key == "from" && option.value)
      from = *option.value;
  return from;
}

}  // namespace firebreak::wire
