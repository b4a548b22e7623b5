#include "egress/nft.h"

#include <future>
#include <memory>
#include <mutex>

#include <nftables/libnftables.h>
#include <sched.h>
#include <unistd.h>

namespace firebreak::egress {

namespace {

struct FreeContext {
  void operator()(nft_ctx* context) const { nft_ctx_free(context); }
};
using Context = std::unique_ptr<nft_ctx, FreeContext>;

// Names of links and protocols are cached in globals of the library.
std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

Result<> enter(int netns) {
  if (setns(netns, CLONE_NEWNET) != 0) return fail_errno("entering a network namespace");
  return {};
}

// The library waits with select(), which ends the process for a descriptor above 1023, and a server
// with many microVMs has thousands. This thread gets a table of its own, with nothing in it.
Result<> forget_descriptors() {
  if (unshare(CLONE_FILES) != 0) return fail_errno("unshare of descriptors");
  if (close_range(STDERR_FILENO + 1, ~0U, 0) != 0) return fail_errno("close_range");
  return {};
}

Result<std::string> run_here(Context& context, const std::string& commands, unsigned output_flags) {
  const std::lock_guard lock(library_mutex());
  context.reset(nft_ctx_new(NFT_CTX_DEFAULT));
  if (!context) {
    return fail(Code::unavailable, "nftables cannot be used",
                Repair{"the host needs CAP_NET_ADMIN for it"});
  }
  nft_ctx_buffer_output(context.get());
  nft_ctx_buffer_error(context.get());
  nft_ctx_output_set_flags(context.get(), output_flags);
  if (nft_run_cmd_from_buffer(context.get(), commands.c_str()) != 0) {
    return fail(Code::unavailable, "the kernel refused the network rules",
                nft_ctx_get_error_buffer(context.get()));
  }
  return std::string(nft_ctx_get_output_buffer(context.get()));
}

}  // namespace

Result<> NftRunner::run(const std::string& script) {
  FB_TRY(execute(script, 0));
  return {};
}

Result<std::string> NftRunner::list(const std::string& command) {
  return execute(command, NFT_CTX_OUTPUT_JSON);
}

Result<std::string> NftRunner::execute(const std::string& commands, unsigned output_flags) {
  settle();
  std::promise<Result<std::string>> promise;
  std::future<Result<std::string>> result = promise.get_future();
  last_ = std::thread([&commands, output_flags, netns = netns_,
                       done = std::move(promise)]() mutable {
    Context
        context;  // freed after the caller has its answer, and must not look at `commands` again
    if (auto entered = enter(netns); !entered) {
      done.set_value(std::unexpected(std::move(entered).error()));
      return;
    }
    if (auto small = forget_descriptors(); !small) {
      done.set_value(std::unexpected(std::move(small).error()));
      return;
    }
    done.set_value(run_here(context, commands, output_flags));
  });
  return result.get();
}

void NftRunner::settle() {
  if (last_.joinable()) last_.join();
}

}  // namespace firebreak::egress
