#include "rich_results.h"

#include <array>
#include <cerrno>

#include <fcntl.h>

#include "base/sys.h"
#include "wire/crypto.h"

namespace firebreak::cli {
namespace {

struct Kind {
  std::string_view name;
  std::string_view ending;
  bool base64;
};

constexpr std::array kKinds = {
    Kind{"text", "txt", false},      Kind{"html", "html", false},
    Kind{"markdown", "md", false},   Kind{"latex", "tex", false},
    Kind{"svg", "svg", false},       Kind{"json", "json", false},
    Kind{"javascript", "js", false}, Kind{"png", "png", true},
    Kind{"jpeg", "jpg", true},       Kind{"pdf", "pdf", true},
    Kind{"image/gif", "gif", true},  Kind{"image/webp", "webp", true},
    Kind{"text/csv", "csv", false},  Kind{"text/plain", "txt", false},
};

// Of a kind that is not known: base64 if it is, else text.
Kind kind_of(std::string_view name) {
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind;
  }
  return {name, "bin", true};
}

std::string bytes_of(const Kind& kind, const std::string& data) {
  if (!kind.base64) return data;
  // Encoders may break lines.
  std::string whole;
  for (const char c : data) {
    if (c != '\n' && c != '\r') whole += c;
  }
  return wire::from_base64(whole).value_or(data);
}

std::string kitty_text(const std::string& bytes) {
  constexpr std::size_t kPiece = 4096;
  const std::string encoded = wire::base64(bytes);
  std::string out;
  for (std::size_t at = 0; at < encoded.size(); at += kPiece) {
    const bool more = at + kPiece < encoded.size();
    out += std::string("\x1b_G") + (at == 0 ? "a=T,f=100," : "") + "m=" + (more ? "1" : "0") + ";" +
           encoded.substr(at, kPiece) + "\x1b\\";
  }
  return out + "\n";
}

}  // namespace

bool is_plain(std::string_view kind) {
  return kind == "text" || kind == "markdown" || kind == "json";
}

Result<std::string> save_result(const std::string& directory, std::string_view kind,
                                const std::string& data) {
  const Kind known = kind_of(kind);
  FB_TRY(sys::mkdirs(directory, 0755));
  constexpr int kMost = 100000;
  for (int number = 1; number < kMost; ++number) {
    std::string path =
        directory + "/result-" + std::to_string(number) + "." + std::string(known.ending);
    auto file = sys::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    if (!file) {
      if (sys::exists(path)) continue;
      return std::unexpected(file.error());
    }
    FB_TRY(sys::write_all(file->get(), bytes_of(known, data)));
    return path;
  }
  return fail(Code::exhausted, directory + " is full of results",
              Repair{"choose another with --save DIR"});
}

Pictures pictures_of(std::string_view term, std::string_view program, bool kitty_window) {
  // A multiplexer would print the picture as text.
  if (term.starts_with("screen") || term.starts_with("tmux")) return Pictures::none;
  if (program == "iTerm.app" || program == "WezTerm") return Pictures::iterm;
  if (kitty_window || term == "xterm-kitty" || term == "xterm-ghostty" || program == "ghostty")
    return Pictures::kitty;
  return Pictures::none;
}

std::optional<std::string> picture_text(Pictures how, std::string_view kind,
                                        const std::string& data) {
  const bool can =
      (kind == "png" && how != Pictures::none) || (kind == "jpeg" && how == Pictures::iterm);
  if (!can) return std::nullopt;
  const std::string bytes = bytes_of(kind_of(kind), data);
  if (how == Pictures::kitty) return kitty_text(bytes);
  return "\x1b]1337;File=inline=1;size=" + std::to_string(bytes.size()) + ":" +
         wire::base64(bytes) + "\a\n";
}

}  // namespace firebreak::cli
