#include "control/oci_registries.h"

#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "control/registry_auth.h"
#include "machine/unprivileged.h"

namespace firebreak::control {
namespace {

constexpr int kMaxNesting = 4;
constexpr auto kInspectTime = std::chrono::seconds(60);
constexpr std::uint64_t kMaxDocumentFile = std::uint64_t{4} << 20;
constexpr const char* kLayout = "image";  // in the directory of a fetch

}  // namespace

std::string RegistryPlace::url(const std::string& digest) const {
  std::string out = "docker://" + registry.host + "/" + name.path;
  const std::string& by = digest.empty() ? name.digest : digest;
  if (!by.empty()) return out + "@" + by;
  return out + ":" + (name.tag.empty() ? "latest" : name.tag);
}

// ----------------------------------------------------------------------------------- RegistryImage

RegistryImage::~RegistryImage() {
  (void)sys::remove_tree(directory_);
}

Result<bool> RegistryImage::put_keys() const {
  if (settings_.auth_file.empty()) return false;
  FB_TRY_ASSIGN(const std::string all, read_registry_auth(settings_.auth_file));
  FB_TRY_ASSIGN(const std::string own, registry_auth_for(all, place_.registry.host));
  if (own.empty()) return false;
  (void)::unlink(keys_path().c_str());
  FB_TRY_ASSIGN(const UniqueFd file, sys::open(keys_path(), O_WRONLY | O_CREAT | O_EXCL, 0600));
  if (::fchown(file.get(), settings_.uid, settings_.uid) != 0)
    return fail_errno("chown " + keys_path());
  FB_TRY(sys::write_all(file.get(), own));
  return true;
}

net::Task<Result<std::string>> RegistryImage::call(Command command,
                                                   std::vector<std::string> arguments,
                                                   std::uint64_t file_bytes, Deadline deadline) {
  const auto keys = put_keys();
  // What is wrong with the operator's file is not a tenant's to read.
  if (!keys)
    co_return fail(Code::unavailable, "the server's keys for registries cannot be read",
                   keys.error().text());
  std::vector<std::string> words{command.name, command.no_keys};
  if (*keys)
    words = {command.name, command.keys_in, std::string(machine::kUnprivilegedDir) + "/" + kKeys};
  words.insert(words.end(), arguments.begin(), arguments.end());
  auto done = co_await skopeo_.run({.arguments = std::move(words),
                                    .directory = directory_,
                                    .file_bytes = file_bytes,
                                    .tools = access_.tools},
                                   deadline);
  if (*keys) (void)::unlink(keys_path().c_str());
  if (done || done.error().code != Code::unavailable) co_return done;
  for (const std::string_view line : split(done.error().detail, '\n'))
    if (!line.empty()) access_.log("    " + std::string(line));
  co_return fail(Code::not_found,
                 place_.registry.host + " does not give the image: " + done.error().message);
}

net::Task<Result<std::string>> RegistryImage::inspect(std::vector<std::string> options,
                                                      std::string url, Deadline deadline) {
  std::vector<std::string> arguments{"--raw"};
  if (place_.registry.plain) arguments.emplace_back("--tls-verify=false");
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.push_back(std::move(url));
  Command command{.name = "inspect", .no_keys = "--no-creds", .keys_in = "--authfile"};
  co_return co_await call(std::move(command), std::move(arguments), kMaxDocumentFile,
                          deadline.earlier(Deadline::in(kInspectTime)));
}

net::Task<Result<>> RegistryImage::read(Deadline deadline) {
  FB_CO_TRY(sys::mkdirs(directory_, 0700));
  FB_CO_TRY_ASSIGN(std::string text, co_await inspect({}, place_.url(), deadline));
  std::string digest = image::digest_of(text);
  if (!place_.name.digest.empty())
    FB_CO_TRY(image::check_digest(text, place_.name.digest, "the manifest of the image"));
  for (int depth = 0; depth < kMaxNesting; ++depth) {
    FB_CO_TRY_ASSIGN(const auto document, image::parse_oci_document(text));
    if (const auto* index = std::get_if<image::OciIndex>(&document)) {
      FB_CO_TRY_ASSIGN(const auto chosen, image::choose_manifest(*index, ""));
      digest = chosen.digest;
      FB_CO_TRY_ASSIGN(text, co_await inspect({}, place_.url(digest), deadline));
      FB_CO_TRY(image::check_digest(text, digest, "the manifest of the image"));
      continue;
    }
    const auto& manifest = std::get<image::OciManifest>(document);
    FB_CO_TRY_ASSIGN(const std::string config,
                     co_await inspect({"--config"}, place_.url(digest), deadline));
    FB_CO_TRY(
        image::check_digest(config, manifest.config.digest, "the configuration of the image"));
    FB_CO_TRY_ASSIGN(image_, image::make_oci_image(manifest, config));
    image_.digest = digest;
    co_return Result<>();
  }
  co_return fail(Code::invalid, "its indexes are nested too deeply");
}

net::Task<Result<>> RegistryImage::fetch(Deadline deadline) {
  std::uint64_t bytes = 0;
  std::uint64_t largest = kMaxDocumentFile;
  for (const image::OciLayer& layer : image_.layers) {
    bytes += layer.size;
    largest = std::max(largest, layer.size);
  }
  access_.log("    fetching " + std::to_string(bytes >> 10) + " KiB from " + place_.registry.host);
  // By digest: what is fetched is what was read, whatever the tag means by now.
  std::vector<std::string> arguments{"--quiet", "--dest-oci-accept-uncompressed-layers"};
  if (place_.registry.plain) arguments.emplace_back("--src-tls-verify=false");
  arguments.insert(arguments.end(),
                   {place_.url(image_.digest), std::string("oci:") + kLayout + ":fetched"});
  Command command{.name = "copy", .no_keys = "--src-no-creds", .keys_in = "--src-authfile"};
  FB_CO_TRY(co_await call(std::move(command), std::move(arguments), largest, deadline));
  fetched_ = true;
  co_return Result<>();
}

net::Task<Result<image::FileSpan>> RegistryImage::open(std::string digest, Deadline deadline) {
  if (!fetched_) FB_CO_TRY(co_await fetch(deadline));
  image::LayoutBlobs blobs(std::make_unique<image::DiskTree>(directory_ + "/" + kLayout));
  co_return co_await blobs.open(std::move(digest), deadline);
}

// -------------------------------------------------------------------------------------- Registries

Registries::Registries(net::asio::any_io_executor executor, net::asio::thread_pool& pool,
                       RegistrySettings settings)
    : settings_(std::move(settings)),
      skopeo_(std::move(executor), pool, {.directory = settings_.directory, .uid = settings_.uid}) {
  (void)sys::remove_tree(settings_.directory);
}

Result<RegistryPlace> Registries::find(const std::string& name) const {
  FB_TRY_ASSIGN(image::RegistryReference reference, image::parse_registry_reference(name));
  if (!any())
    return fail(Code::not_found, "no registry may be asked",
                Repair{"the operator can allow one with "
                       "--registries HOST"});
  auto found = settings_.allowed.begin();
  if (!reference.host.empty())
    found = std::ranges::find(settings_.allowed, reference.host, &image::RegistryHost::host);
  if (found == settings_.allowed.end())
    return fail(Code::not_found, reference.host + " is not a registry that this server may ask",
                Repair{"the operator can allow it with --registries " + reference.host});
  if (!Skopeo::installed())
    return fail(Code::not_found,
                "registries are asked with skopeo, which this server's host does not have",
                Repair{"the "
                       "operator can install it: apt-get install skopeo"});
  return RegistryPlace{.registry = *found, .name = std::move(reference)};
}

net::Task<Result<std::shared_ptr<RegistryImage>>> Registries::read(RegistryPlace place,
                                                                   RegistryAccess access,
                                                                   Deadline deadline) {
  FB_CO_TRY(sys::mkdirs(settings_.directory, 0700));
  auto image =
      std::make_shared<RegistryImage>(skopeo_, settings_, std::move(place), std::move(access),
                                      settings_.directory + "/" + sys::random_hex(8));
  FB_CO_TRY(co_await image->read(deadline));
  co_return image;
}

}  // namespace firebreak::control
