#include "control/registry_auth.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/sys.h"

namespace firebreak::control {
namespace {

constexpr std::size_t kMaxFile = std::size_t{1} << 20;

// Of "HOST", "HOST/NAME", "https://HOST/v1/".
std::string_view host_in(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"})
    if (key.starts_with(scheme)) key.remove_prefix(scheme.size());
  return key.substr(0, key.find('/'));
}

bool is_for(std::string_view key, std::string_view host) {
  const std::string_view named = host_in(key);
  // Docker's own registry has another name in these files.
  return named == host || (host == "docker.io" && named == "index.docker.io");
}

}  // namespace

Result<std::string> read_registry_auth(const std::string& file) {
  FB_TRY_ASSIGN(const UniqueFd fd, sys::open(file, O_RDONLY));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("stat " + file);
  if ((st.st_mode & 077) != 0)
    return fail(Code::denied, file + " can be read by others than its owner",
                Repair{"chmod 600 " + file});
  if (!S_ISREG(st.st_mode) || static_cast<std::uint64_t>(st.st_size) > kMaxFile)
    return fail(Code::invalid, file + " is no file of keys for registries");
  std::string text(static_cast<std::size_t>(st.st_size), '\0');
  FB_TRY(sys::pread_all(fd.get(), std::as_writable_bytes(std::span(text)), 0));
  return text;
}

Result<std::string> registry_auth_for(std::string_view text, std::string_view host) {
  // Never with the parser's words: they may quote what they stumbled over.
  const auto file = parse_json_object(text);
  if (!file) return fail(Code::invalid, "it is not a JSON object");
  for (const char* program : {"credHelpers", "credsStore"})
    if (file->contains(program))
      return fail(Code::invalid,
                  std::string("it names programs to ask (") + program + "), which are not run",
                  Repair{"write the keys themselves with "
                         "skopeo login --authfile FILE HOST"});
  const json::value* auths = file->if_contains("auths");
  if (auths == nullptr || !auths->is_object())
    return fail(Code::invalid, "it has no object \"auths\"");
  json::object chosen;
  for (const auto& [key, value] : auths->as_object()) {
    if (!value.is_object()) return fail(Code::invalid, "an entry of \"auths\" is no object");
    if (!is_for(key, host)) continue;
    json::object entry;
    for (const char* member : {"auth", "identitytoken"})
      if (const json::value* secret = value.as_object().if_contains(member))
        entry[member] = *secret;
    chosen[key] = std::move(entry);
  }
  if (chosen.empty()) return std::string();
  return json::serialize(json::object{{"auths", std::move(chosen)}});
}

}  // namespace firebreak::control
