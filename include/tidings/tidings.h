/* SPDX-License-Identifier: MIT
 *
 * All headers of the library. Each header is the manual of its part:
 *
 *     types.h         slices, errors, the allocator, and conventions of the whole API
 *     server.h        a server: configuration, resources, changes, running
 *     provider.h      a source of many resources: its reads, lists and changes
 *     http.h          HTTP pages of the program next to the endpoint
 *     call.h          requests that functions of the program answer
 *     tool.h          tools
 *     prompt.h        prompts and completion
 *     schema.h        JSON Schemas of arguments and results, built from a table
 *     subscription.h  updates from a server of the program or through a client
 *     subscribers.h   subscribers of a server and their subscriptions
 *     store.h         copy, check, back up and compact the store of a server
 *     client.h        watch and read resources of another server
 *     credentials.h   credentials of a client
 *     oauth.h         OAuth login
 *     copy.h          live copies of entities of another server
 *     question.h      questions of another server: forms, sampling, roots
 *     json.h          parse and build JSON; merge patches
 *     file.h          read trusted small files: settings, secrets
 *
 * Since 0.1.
 */
#ifndef TIDINGS_TIDINGS_H
#define TIDINGS_TIDINGS_H

#include <tidings/call.h>
#include <tidings/client.h>
#include <tidings/copy.h>
#include <tidings/credentials.h>
#include <tidings/file.h>
#include <tidings/http.h>
#include <tidings/json.h>
#include <tidings/oauth.h>
#include <tidings/prompt.h>
#include <tidings/provider.h>
#include <tidings/question.h>
#include <tidings/schema.h>
#include <tidings/server.h>
#include <tidings/store.h>
#include <tidings/subscribers.h>
#include <tidings/subscription.h>
#include <tidings/tool.h>
#include <tidings/types.h>

#endif
