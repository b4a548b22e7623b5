// The part of S3 that programs for Lambda MicroVMs need to put their code somewhere: buckets,
// objects, ranges, listings, uploads in parts. Path style, also below /s3, and host style below
// localhost. Owned by the AwsApi; one executor, with file work on the pool.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "api/aws/aws_call.h"
#include "object/object_store.h"

namespace firebreak::api {

class S3Api final : public AwsService {
 public:
  S3Api(object::ObjectStore& objects, net::asio::thread_pool& pool)
      : objects_(objects), pool_(pool) {}

  net::Task<AwsResult<>> handle(AwsCall& call) override;
  AwsReply render(const AwsError& error, const std::string& request_id) const override;
  // Bodies are streamed, except of the few calls with XML.
  // What tenants stored, and nothing that a guest gives by itself.
  std::vector<Surface> surface() const override {
    return {{"buckets and objects", Carries::nothing}};
  }
  std::size_t body_limit() const override { return 0; }

 private:
  struct S3Path {
    std::string bucket;
    std::string key;
  };
  using Done = net::Task<AwsResult<>>;

  // What a caller with a role needs to be allowed.
  static AwsResult<> allow_on_bucket(const AwsCall& call, const std::string& bucket);
  static AwsResult<> allow_on_object(const AwsCall& call, const S3Path& place);
  Done on_bucket(AwsCall& call, S3Path place);
  Done on_object(AwsCall& call, S3Path place);

  Done list_buckets(AwsCall& call);
  Done create_bucket(AwsCall& call, S3Path place);
  Done delete_bucket(AwsCall& call, S3Path place);
  Done list_objects(AwsCall& call, S3Path place);
  Done delete_objects(AwsCall& call, S3Path place);

  Done put_object(AwsCall& call, S3Path place);
  Done get_object(AwsCall& call, S3Path place, bool head);
  Done delete_object(AwsCall& call, S3Path place);

  Done create_upload(AwsCall& call, S3Path place);
  Done upload_part(AwsCall& call, S3Path place);
  Done complete_upload(AwsCall& call, S3Path place);
  Done abort_upload(AwsCall& call, S3Path place);
  Done list_parts(AwsCall& call, S3Path place);

  // The body into a draft, checked against everything that was said about it.
  struct Received {
    std::unique_ptr<object::Draft> draft;
    std::string etag;
    std::map<std::string, std::string> checksums;  // header to value, as verified
  };
  net::Task<AwsResult<Received>> receive(AwsCall& call, std::string bucket);
  net::Task<AwsResult<std::string>> read_small(AwsCall& call);

  // Runs file work off the event loop.
  template <class Work>
  net::Task<std::invoke_result_t<Work>> blocking(Work work) {
    co_return co_await net::run_blocking(pool_, work);
  }

  object::ObjectStore& objects_;
  net::asio::thread_pool& pool_;
};

}  // namespace firebreak::api
