// From a context to a build plan, before any machine. What a context costs to look at is its
// sender's choice, so that is done on threads of its own, tenants in turn, within one span of time
// for the whole plan. Owned by Builds; one executor.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "control/base_finder.h"
#include "control/tenant_queue.h"
#include "wire/dockerfile.h"

namespace firebreak::control {

struct PlanOrder {
  core::TenantId tenant;
  std::shared_ptr<const image::BuildContext> context;
  image::PlanOptions options;
  // Without it nobody outside is asked, and images of registries are taken for empty.
  std::optional<RegistryAccess> registry;
  bool with_digest = false;
};

struct PlannedBuild {
  std::shared_ptr<const image::BuildContext> context;
  wire::IgnoreRules ignore;
  image::BuildPlan plan;
  std::map<std::string, image::FoundBase> bases;
  // The same whenever the Dockerfile, all that the context holds for it, and the bases are the
  // same. Empty: not asked for, or not to be known without asking a registry, or not in time.
  std::string digest;
};

class BuildPlanner {
 public:
  BuildPlanner(const net::asio::any_io_executor& executor, BaseFinder& bases)
      : bases_(bases), turns_(executor, kThreads), threads_(kThreads) {}

  // Code::timeout for a context that takes too long to look at.
  net::Task<Result<PlannedBuild>> plan(PlanOrder order, Deadline deadline);
  // The threads on which later steps of a build look at contexts, too.
  net::asio::thread_pool& threads() { return threads_; }

 private:
  static constexpr std::uint32_t kThreads = 2;

  // What is read of a context at first.
  struct Read {
    wire::IgnoreRules ignore;
    wire::Dockerfile file;
    std::string text;  // of the Dockerfile
  };
  static Result<Read> read(const image::BuildContext& context, const std::string& file_name,
                           Deadline deadline);
  // What COPY takes from the context is looked for: a name that is wrong costs no machine.
  static Result<> check_copies(const PlannedBuild& planned, const std::string& file_name,
                               Deadline deadline);
  // Of what a plan was made from, and which bases it found.
  static Result<std::string> digest_of(const PlannedBuild& planned, const std::string& text,
                                       Deadline deadline);
  // Runs `work(Deadline)` on a thread, in the tenant's turn, and takes its time from `left`.
  template <class Work>
  net::Task<std::invoke_result_t<Work, Deadline>> in_turn(core::TenantId tenant,
                                                          std::chrono::nanoseconds& left, Work work,
                                                          Deadline deadline);

  BaseFinder& bases_;
  TenantQueue turns_;
  net::asio::thread_pool threads_;
};

}  // namespace firebreak::control
