// The operator's certificates for a RUN: in the image already, or lent to it for its time.
#include "image/builder.h"

namespace firebreak::image {
namespace {

// In memory, where nothing of it can stay on the disk.
constexpr const char* kLent = "/dev/firebreak-ca.crt";
constexpr const char* kStaging = "certificates";
constexpr std::size_t kMaxBundle = std::size_t{4} << 20;
// Of an image from elsewhere, as distributions have it.
constexpr const char* kBundles[] = {kCaBundle, "/etc/pki/tls/certs/ca-bundle.crt",
                                    "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

}  // namespace

net::Task<Result<>> Builder::trust(BuildMachine& machine, const RunStep& run,
                                   machine::ExecSpec& spec,
                                   std::vector<BuildMachine::StepMount>& mounts,
                                   Deadline deadline) {
  if (run.trust == RunStep::Trust::in_image) spec.env = ca_environment();
  if (run.trust != RunStep::Trust::lent || !order_.ca) co_return Result<>();
  // What the image trusts by itself, it trusts still.
  std::string own;
  for (const char* path : kBundles) {
    if (auto text = co_await machine.agent().read_file(path, deadline, kMaxBundle)) {
      own = *std::move(text);
      break;
    }
  }
  FB_CO_TRY(co_await machine.stage(kStaging, 0, deadline));
  FB_CO_TRY_ASSIGN(const FileMode readable, FileMode::parse("0444"));
  FB_CO_TRY(co_await copy_inline(
      machine.agent(), {{.name = "ca.crt", .content = united(own, order_.ca->bundle)}},
      {.directory = ".", .staging = kStaging, .user = {}}, "", {.mode = readable}, deadline));
  mounts.push_back(
      {.tree = {.staging = kStaging, .path = "ca.crt"}, .target = kLent, .readonly = true});
  spec.env = lent_ca_environment(kLent);
  co_return Result<>();
}

}  // namespace firebreak::image
