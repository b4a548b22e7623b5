// Reads an archive and packs it anew, piece by piece, with entries left out or changed. The base of
// every class that passes a tree on. One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "wire/tar.h"

namespace firebreak::image {

class TarRepacker : private wire::TarReader::Sink {
 public:
  ~TarRepacker() override = default;

  Result<> feed(std::string_view bytes) { return reader_.feed(bytes); }
  Result<> finish() {
    FB_TRY(reader_.finish());
    wire::TarWriter::finish(out_);
    return {};
  }
  // What is packed already.
  std::string take() { return std::exchange(out_, {}); }
  std::size_t ready() const { return out_.size(); }

 protected:
  // The entry as it is packed; nullopt leaves it out.
  virtual std::optional<wire::TarEntry> entry_for(const wire::TarEntry& entry) = 0;
  // Adds an entry that the archive does not have.
  Result<> add_empty(const wire::TarEntry& entry) {
    FB_TRY(writer_.begin_entry(entry, out_));
    writer_.end_entry(out_);
    return {};
  }

 private:
  Result<> on_entry(const wire::TarEntry& entry) override {
    const std::optional<wire::TarEntry> as = entry_for(entry);
    skipping_ = !as;
    return as ? writer_.begin_entry(*as, out_) : Result<>();
  }
  Result<> on_data(std::string_view bytes) override {
    if (!skipping_) out_ += bytes;
    return {};
  }
  Result<> on_entry_end() override {
    if (!skipping_) writer_.end_entry(out_);
    return {};
  }

  wire::TarReader reader_{*this};
  wire::TarWriter writer_;
  bool skipping_ = false;
  std::string out_;
};

}  // namespace firebreak::image
