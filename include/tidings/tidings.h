/* SPDX-License-Identifier: MIT
 *
 * Everything. Each header is the manual of its part:
 *
 *     types.h         slices, errors, the allocator; what holds for the whole interface
 *     server.h        a server: configuration, resources, changes, running
 *     provider.h      a source of many resources; reads, lists and changes as they are put to it
 *     http.h          pages of the program next to the endpoint
 *     call.h          requests answered by functions of the program
 *     tool.h          tools, prompt.h prompts and completion: what such functions are
 *     schema.h        JSON Schemas of arguments and results, made of a table
 *     subscription.h  being told of changes, by a server of the program or by a client
 *     subscribers.h   who is subscribed to what
 *     store.h         copying, checking, backing up and compacting what a server keeps
 *     client.h        watch and read what another server has
 *     credentials.h   what a client shows a server to be let in
 *     oauth.h         … by logging in with OAuth
 *     copy.h          keep a live copy of an entity of another server
 *     question.h      answer what another server asks: forms, sampling, roots
 *     json.h          take apart what it says; merge patches
 *     file.h          read small files that are obeyed: settings, secrets
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
