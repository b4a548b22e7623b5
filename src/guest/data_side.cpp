#include "guest/data_side.h"

#include "base/sys.h"
#include "guest/tunnel.h"

namespace firebreak::guest {

Result<std::unique_ptr<DataSide>> DataSide::create(UniqueFd port, Port::Kind kind,
                                                   TenantState& state,
                                                   std::optional<CgroupTree> cgroups) {
  std::unique_ptr<DataSide> side(new DataSide());
  FB_TRY_ASSIGN(side->reactor_, Reactor::create());
  FB_TRY_ASSIGN(side->spawner_, Spawner::create());
  FB_TRY_ASSIGN(UniqueFd null, sys::open("/dev/null", O_RDWR));
  Reactor& reactor = *side->reactor_;
  side->workers_ = std::make_unique<Workers>();
  side->execs_ = std::make_unique<ExecTable>(reactor, *side->spawner_, state, std::move(null));
  side->exec_service_ = std::make_unique<ExecService>(*side->execs_);
  side->contexts_ = std::make_unique<ContextTable>(reactor, *side->execs_, side->reseed_);
  side->context_service_ = std::make_unique<ContextService>(*side->contexts_);
  side->file_service_ = std::make_unique<FileService>(reactor, *side->workers_, *side->execs_);
  side->build_service_ = std::make_unique<BuildService>(reactor, *side->workers_, *side->execs_);
  side->accept_line_ = std::make_unique<AcceptLine>(reactor);
  side->tenant_ =
      std::make_unique<Tenant>(reactor, *side->spawner_, *side->execs_, state, std::move(cgroups));
  Service& service = *side;
  side->port_ = std::make_unique<Port>(reactor, std::move(port), kind, service,
                                       [&reactor] { reactor.stop(); });
  FB_TRY(side->port_->start());
  reactor.on_batch_end([raw = side.get()] { raw->batch_end(); });
  return side;
}

DataSide::~DataSide() = default;

void DataSide::stop() {
  reactor_->post([this] { reactor_->stop(); });
}

void DataSide::batch_end() {
  port_->flush();
}

std::unique_ptr<StreamHandler> DataSide::open(const Request& request,
                                              const std::shared_ptr<Exchange>& exchange) {
  const std::string_view area = request.segments.front();
  if (area == "execs") return exec_service_->open(request, exchange);
  if (area == "contexts") return context_service_->open(request, exchange);
  if (area == "files" || area == "tar") return file_service_->open(request, exchange);
  if (area == "build") return build_service_->open(request, exchange);
  if (request.is("POST", "/tunnel"))
    return open_tunnel(*reactor_, *accept_line_, request, exchange);
  exchange->error({Code::not_found, "no such operation", {}});
  return nullptr;
}

void DataSide::create_tenant(TenantSpec spec, Reactor& reply_to,
                             std::function<void(Result<TenantHandles>)> done) {
  reactor_->post([this, spec = std::move(spec), &reply_to, done = std::move(done)] {
    auto made = std::make_shared<Result<TenantHandles>>(tenant_->create(spec));
    reply_to.post([made, done] { done(std::move(*made)); });
  });
}

}  // namespace firebreak::guest
