// Takes an upload of a build context as it comes: a tar stream, or a zip archive, which is spooled
// to an unnamed file first. Blocking; single thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "image/build_context.h"
#include "wire/tar.h"

namespace firebreak::image {

class ContextUpload final : private wire::TarReader::Sink {
 public:
  static Result<std::unique_ptr<ContextUpload>> create(const std::string& directory,
                                                       const ContextLimits& limits = {});
  ContextUpload(const ContextUpload&) = delete;
  ContextUpload& operator=(const ContextUpload&) = delete;
  ~ContextUpload() override = default;

  // After an error nothing more may be given.
  Result<> feed(std::string_view bytes);
  // No more bytes will come.
  Result<std::unique_ptr<BuildContext>> finish();

 private:
  enum class Format { unknown, tar, zip };

  ContextUpload(std::unique_ptr<ContextWriter> writer, UniqueFd spool, const ContextLimits& limits)
      : limits_(limits), writer_(std::move(writer)), spool_(std::move(spool)) {}

  Result<> recognise();
  Result<> take(std::string_view bytes);
  Result<> unzip();

  Result<> on_entry(const wire::TarEntry& entry) override;
  Result<> on_data(std::string_view bytes) override;
  Result<> on_entry_end() override;

  ContextLimits limits_;
  std::unique_ptr<ContextWriter> writer_;
  UniqueFd spool_;
  Format format_ = Format::unknown;
  std::string begin_;  // until the format is known
  std::uint64_t received_ = 0;
  bool in_file_ = false;
  wire::TarReader tar_{*this};
};

}  // namespace firebreak::image
